/* gpus: machines with GPUs as their /proc and /sys would show them, and NVLinks as a stand-in of
 * NVIDIA's library has them. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "report/gpu_info.h"

typedef struct machine {
    dg_arena *a;
    dg_diag *d;
    char root[64];
} machine;

static int open_machine(void **state)
{
    machine *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->a = dg_arena_open();
    m->d = dg_diag_open();
    snprintf(m->root, sizeof m->root, "/tmp/detrgraph-gpus-XXXXXX");
    assert_non_null(mkdtemp(m->root));
    *state = m;
    return 0;
}

static int close_machine(void **state)
{
    machine *m = *state;
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", m->root);
    assert_int_equal(system(command), 0);
    dg_arena_close(&m->a);
    dg_diag_close(&m->d);
    free(m);
    return 0;
}

static void put(machine *m, const char *folder, const char *name, const char *text)
{
    const char *path = dg_printf(m->a, "%s/%s", folder, name);

    assert_int_equal(dg_file_write(path, text, strlen(text), m->d), 0);
}

/* A GPU below these ports of a PCIe root: "pci0000:1a/0000:1a:01.0". */
static void add_gpu(machine *m, const char *bus, const char *ports, const char *node,
                    const char *lanes)
{
    const char *known = dg_printf(m->a, "%s/proc/driver/nvidia/gpus/%s", m->root, bus);
    const char *device = dg_printf(m->a, "%s/sys/devices/%s/%s", m->root, ports, bus);
    const char *links = dg_printf(m->a, "%s/sys/bus/pci/devices", m->root);

    assert_int_equal(dg_mkdirs(known, m->d), 0);
    assert_int_equal(dg_mkdirs(device, m->d), 0);
    assert_int_equal(dg_mkdirs(links, m->d), 0);
    assert_int_equal(symlink(dg_printf(m->a, "../../../devices/%s/%s", ports, bus),
                             dg_path_join(m->a, links, bus)),
                     0);
    put(m, known, "information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\n");
    put(m, device, "current_link_speed", "32.0 GT/s PCIe\n");
    put(m, device, "current_link_width", lanes);
    put(m, device, "max_link_width", "16\n");
    put(m, device, "numa_node", node);
}

/* links: of the stand-in; NULL: the library is not there. */
static dg_gpus find(machine *m, const char *links)
{
    const char *top = getenv("builddir");
    dg_gpus g;

    setenv("NVML_LINKS", links ? links : "", 1);
    dg_gpus_find(&g, m->root,
                 links ? dg_printf(m->a, "%s/tests/report/.libs/nvml.so", top ? top : ".")
                       : "no-such-library.so",
                 m->a);
    return g;
}

static void no_gpu(void **state)
{
    assert_int_equal(find(*state, "").n, 0);
}

static void one(void **state)
{
    machine *m = *state;
    dg_gpus g;

    add_gpu(m, "0000:1b:00.0", "pci0000:1a/0000:1a:01.0", "-1\n", "8\n");
    g = find(m, "1b-1b");
    assert_int_equal(g.n, 1);
    assert_string_equal(dg_gpu_text(&g.at[0], m->a),
                        "NVIDIA H100 80GB HBM3, 0000:1b:00.0, 8 lanes of 32.0 GT/s PCIe");
    assert_true(g.at[0].lanes == 8 && g.at[0].most_lanes == 16);
}

/* Two below one port, one at another port, one at another root, one at another processor. */
static void add_five(machine *m)
{
    add_gpu(m, "0000:1b:00.0", "pci0000:1a/0000:1a:01.0/0000:1a:02.0", "0\n", "16\n");
    add_gpu(m, "0000:1c:00.0", "pci0000:1a/0000:1a:01.0/0000:1a:03.0", "0\n", "16\n");
    add_gpu(m, "0000:1d:00.0", "pci0000:1a/0000:1a:05.0", "0\n", "16\n");
    add_gpu(m, "0000:3b:00.0", "pci0000:3a/0000:3a:01.0", "0\n", "16\n");
    add_gpu(m, "0000:9b:00.0", "pci0000:9a/0000:9a:01.0", "1\n", "16\n");
}

static void ways_on_pcie(void **state)
{
    static const dg_gpu_way from_first[] = { DG_GPU_PCIE_SWITCH, DG_GPU_PCIE_ROOT, DG_GPU_PROCESSOR,
                                             DG_GPU_PROCESSORS };
    machine *m = *state;
    dg_gpus g;

    add_five(m);
    g = find(m, NULL);
    assert_int_equal(g.n, 5);
    for (int k = 1; k < 5; k++) {
        assert_int_equal(g.links[k].way, from_first[k - 1]);
        assert_int_equal(g.links[5 * k].way, from_first[k - 1]);
    }
    assert_false(dg_gpus_alike(&g));
    assert_string_equal(dg_gpu_text(&g.at[4], m->a),
                        "NVIDIA H100 80GB HBM3, 0000:9b:00.0, 16 lanes of 32.0 GT/s PCIe, memory "
                        "node 1");
    assert_string_equal(dg_gpu_links_text(&g, 0, m->a),
                        "through a PCIe switch to 1; through a PCIe root to 2; within a processor "
                        "to 3; across processors to 4");
    assert_string_equal(dg_gpu_links_text(&g, 4, m->a), "across processors to 0, 1, 2, 3");
}

static void nvlinks_between_two(void **state)
{
    machine *m = *state;
    dg_gpus g;

    add_five(m);
    g = find(m, "1b-1c 1b-1c 1b-00 1b-9b 1c-1b 1c-1b 9b-1b");
    assert_string_equal(
        dg_gpu_links_text(&g, 0, m->a),
        "by 2 NVLinks to 1; through a PCIe root to 2; within a processor to 3; by 1 "
        "NVLink to 4");
    assert_string_equal(
        dg_gpu_links_text(&g, 1, m->a),
        "by 2 NVLinks to 0; through a PCIe root to 2; within a processor to 3; across "
        "processors to 4");
}

/* The fewer links of the two count; who has none takes PCIe. */
static void a_switch_of_nvlinks(void **state)
{
    machine *m = *state;
    dg_gpus g;

    add_five(m);
    g = find(m, "1b-ff 1b-ff 1b-ff 1c-ff 1c-ff 1c-ff 1d-ff 1d-ff");
    assert_string_equal(dg_gpu_links_text(&g, 0, m->a),
                        "by 3 NVLinks and a switch to 1; by 2 NVLinks and a switch to 2; within a "
                        "processor to 3; across processors to 4");
}

static void all_alike(void **state)
{
    machine *m = *state;
    dg_gpus g;

    add_gpu(m, "0000:1b:00.0", "pci0000:1a/0000:1a:01.0", "0\n", "16\n");
    add_gpu(m, "0000:9b:00.0", "pci0000:9a/0000:9a:01.0", "1\n", "16\n");
    g = find(m, NULL);
    assert_true(dg_gpus_alike(&g));
    assert_string_equal(dg_gpu_link_text(g.links[1], m->a), "across processors");
    g = find(m, "1b-ff 1b-ff 9b-ff 9b-ff");
    assert_true(dg_gpus_alike(&g));
    assert_string_equal(dg_gpu_link_text(g.links[1], m->a), "by 2 NVLinks and a switch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_gpu, open_machine, close_machine),
        cmocka_unit_test_setup_teardown(one, open_machine, close_machine),
        cmocka_unit_test_setup_teardown(ways_on_pcie, open_machine, close_machine),
        cmocka_unit_test_setup_teardown(nvlinks_between_two, open_machine, close_machine),
        cmocka_unit_test_setup_teardown(a_switch_of_nvlinks, open_machine, close_machine),
        cmocka_unit_test_setup_teardown(all_alike, open_machine, close_machine),
    };

    return cmocka_run_group_tests_name("gpus", tests, NULL, NULL);
}
