"""Prints C that compiles if the structs of detrgraph._c have the layout of the headers."""
import ctypes

from detrgraph import _c

print("#include <detrgraph/detect.h>")
for name, struct in _c.STRUCTS.items():
    print(f'_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "{name}");')
    for field, _ in struct._fields_:
        at = getattr(struct, field)
        print(f"_Static_assert(offsetof({name}, {field}) == {at.offset} && "
              f'sizeof((({name} *)0)->{field}) == {at.size}, "{name}.{field}");')
