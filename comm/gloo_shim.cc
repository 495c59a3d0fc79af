/* gloo_shim.cc: the only file that uses Gloo. Catches all of its exceptions. */
#include "comm/gloo_shim.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace
{

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

/* connecting: limit on connecting all ranks. patience: limit on an exchange; none in effect,
 * because only the control plane can tell a slow rank from a lost one. */
constexpr auto connecting = seconds(60);
constexpr auto patience = hours(24 * 365);
/* farewell: limit on waiting for the others to read why a collective failed */
constexpr auto farewell = seconds(5);

class Board : public gloo::rendezvous::Store
{
  public:
    explicit Board(const dg_rendezvous *board) : board_(*board)
    {
    }

    void set(const std::string &key, const std::vector<char> &data) override
    {
        if (board_.put(board_.ctx, key.c_str(), data.data(), data.size()) < 0)
            throw gloo::IoException("the rendezvous takes no word");
    }
    std::vector<char> get(const std::string &key) override
    {
        void *bytes = nullptr;
        size_t n = 0;

        if (board_.get(board_.ctx, key.c_str(), std::chrono::duration<double>(connecting).count(),
                       &bytes, &n) < 0)
            throw gloo::IoException("rank " + key + " did not come to the rendezvous");
        std::vector<char> out(static_cast<char *>(bytes), static_cast<char *>(bytes) + n);
        std::free(bytes);
        return out;
    }
    void wait(const std::vector<std::string> &) override
    {
    } /* unused: get waits */
    void wait(const std::vector<std::string> &, const milliseconds &) override
    {
    }

  private:
    dg_rendezvous board_;
};

struct stopped : std::exception {
};
struct different : std::exception {
};

template <typename F> int guarded(char why[DG_GLOO_WHY], F f)
{
    try {
        f();
        return 0;
    } catch (const stopped &) {
        std::snprintf(why, DG_GLOO_WHY, "stopped");
        return -DG_ESTOP;
    } catch (const different &) {
        return -DG_EINTERNAL;
    } catch (const std::exception &e) {
        std::snprintf(why, DG_GLOO_WHY, "%s", e.what());
    } catch (...) {
        std::snprintf(why, DG_GLOO_WHY, "unknown");
    }
    return -DG_EIO;
}

} // namespace

struct dg_gloo {
    std::shared_ptr<gloo::rendezvous::Context> context;
    std::mutex lock;
    bool stop = false;
    std::vector<buffer> sent, taken, greeted; /* of the current exchange */
};

int dg_gloo_open(dg_gloo **g, const char *address, int rank, int ranks, const dg_rendezvous *board,
                 char why[DG_GLOO_WHY])
{
    *g = nullptr;
    return guarded(why, [&] {
        auto made = std::make_unique<dg_gloo>();
        auto device = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address));
        Board store(board);

        made->context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
        made->context->setTimeout(connecting);
        made->context->connectFullMesh(store, device);
        made->context->setTimeout(patience);
        *g = made.release();
    });
}

void dg_gloo_close(dg_gloo **g)
{
    char why[DG_GLOO_WHY];

    (void)guarded(why, [&] { delete *g; });
    *g = nullptr;
}

void dg_gloo_stop(dg_gloo *g)
{
    char why[DG_GLOO_WHY];

    (void)guarded(why, [&] {
        std::lock_guard<std::mutex> hold(g->lock);

        g->stop = true;
        for (auto &b : g->sent)
            b->abortWaitSend();
        for (auto &b : g->taken)
            b->abortWaitRecv();
        for (auto &b : g->greeted)
            b->abortWaitRecv();
    });
}

static void greet(dg_gloo *g, const dg_gloo_greeting *greeting)
{
    for (int r = 0; r < g->context->size; r++) {
        if (r == g->context->rank)
            continue;
        g->greeted.push_back(
            g->context->createUnboundBuffer(static_cast<char *>(greeting->all) +
                                                static_cast<size_t>(r) * greeting->bytes,
                                            greeting->bytes));
        g->greeted.back()->recv(r, greeting->number);
        g->sent.push_back(
            g->context->createUnboundBuffer(const_cast<void *>(greeting->mine), greeting->bytes));
        g->sent.back()->send(r, greeting->number);
    }
}

/* After a difference: waits until every rank has read all greetings. A rank that closed its sockets
 * earlier, with bytes of the others unread, would reset the connections: a slow rank would lose the
 * greetings that it has not read, and report a lost rank instead of the difference. */
static void part_from_all(dg_gloo *g, const dg_gloo_greeting *greeting)
{
    const uint64_t number = greeting->number + 1;
    char why[DG_GLOO_WHY], bye = 0;
    std::vector<char> byes(static_cast<size_t>(g->context->size));
    std::vector<buffer> sent, taken;

    (void)guarded(why, [&] {
        for (int r = 0; r < g->context->size; r++) {
            if (r == g->context->rank)
                continue;
            taken.push_back(g->context->createUnboundBuffer(&byes[static_cast<size_t>(r)], 1));
            taken.back()->recv(r, number);
            sent.push_back(g->context->createUnboundBuffer(&bye, 1));
            sent.back()->send(r, number);
        }
        for (auto &b : taken)
            b->waitRecv(farewell);
        for (auto &b : sent)
            b->waitSend(farewell);
    });
}

/* Waits for what it receives before what it sends: others always expect something of a lost rank.
 */
int dg_gloo_exchange(dg_gloo *g, const dg_gloo_part send[], const dg_gloo_part take[],
                     uint64_t number, const dg_gloo_greeting *greeting, char why[DG_GLOO_WHY])
{
    int rc = guarded(why, [&] {
        {
            std::lock_guard<std::mutex> hold(g->lock);

            if (g->stop)
                throw stopped();
            if (greeting)
                greet(g, greeting);
            for (int r = 0; r < g->context->size; r++) {
                if (r == g->context->rank)
                    continue;
                if (take[r].bytes) {
                    g->taken.push_back(g->context->createUnboundBuffer(take[r].p, take[r].bytes));
                    g->taken.back()->recv(r, number);
                }
                if (send[r].bytes) {
                    g->sent.push_back(g->context->createUnboundBuffer(send[r].p, send[r].bytes));
                    g->sent.back()->send(r, number);
                }
            }
        }
        for (auto &b : g->greeted)
            if (!b->waitRecv(patience))
                throw stopped();
        if (greeting && greeting->differs(greeting->ctx, why)) {
            part_from_all(g, greeting);
            throw different();
        }
        for (auto &b : g->taken)
            if (!b->waitRecv(patience))
                throw stopped();
        for (auto &b : g->sent)
            if (!b->waitSend(patience))
                throw stopped();
    });
    std::lock_guard<std::mutex> hold(g->lock);

    g->taken.clear();
    g->greeted.clear();
    g->sent.clear();
    return rc;
}
