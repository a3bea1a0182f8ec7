# SPDX-License-Identifier: MIT
"""libzc for Python programs: `import libzc`.  The command zc is `python3 -m libzc`, in a wheel.

    enable()    as a script's first line: starts it again under libzc
    present()   whether libzc is there
    named()     a range, by name
    query()     what is known of a block of memory

In IPython `%load_ext libzc` says under each cell what it copied.
"""

import os

_HERE = os.path.dirname(os.path.realpath(__file__))
# In a wheel zclib is in this package; else it lies beside it.
if not os.path.isdir(os.path.join(_HERE, "zclib")):
    __path__.append(os.path.dirname(_HERE))

# The module of zclib that each is in.  They are loaded when they are asked for: the command begins
# with this package, too, and then takes folders off the path that modules are looked for in.
_MODULES = {"enable": "enable", "present": "program", "named": "program", "query": "program",
            "Memory": "program"}

__all__ = list(_MODULES)

# For %load_ext and %unload_ext of IPython.
_MODULES.update(dict.fromkeys(("load_ipython_extension", "unload_ipython_extension"), "notebook"))


def __getattr__(name):
    from importlib import import_module

    if name == "__version__":
        return import_module(".zclib.install", __name__).version()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".zclib." + _MODULES[name], __name__), name)


def __dir__():
    return sorted([*globals(), *_MODULES, "__version__"])
