# SPDX-License-Identifier: MIT
"""zc doctor: what this machine can do, place by place, and what to change where it can't."""

from __future__ import annotations

import argparse
import json
import os
import platform
from typing import Any, Iterator

from .. import costs, install, names, obstacles, output, policies, screen, table, units
from ..doctor import child, host, places, views
from ..progress import Progress

EPILOG = """\
--measure copies up to 256 MiB over the link of device 0 for some seconds, alone and beside each \
other GPU's, and tries on \
every device what the place 'shared' relies on; it keeps what it finds, for the \
predictions of `zc tune` and for the library, in $XDG_CACHE_HOME/libzc.
Exit status: 0 where a place beyond 'pageable' is possible; 1 where none is, or \
where the driver failed.
"""

ASK_SECONDS = 30
MEASURE_SECONDS = 90  # Beside the time to ask.
VIEWS_SECONDS = 900   # Of all devices; a step that hangs is given up after 60 s.
SIMULATED = "Simulated GPU"

# CU_COMPUTEMODE_*.
COMPUTE_MODES = {0: "", 2: ", compute mode PROHIBITED", 3: ", one process at a time"}

RATES = (
    ("rate.to_device_pinned", "Copy to the device, pinned"),
    ("rate.from_device_pinned", "Copy from the device, pinned"),
    ("rate.to_device_pageable", "Copy to the device, pageable"),
    ("rate.from_device_pageable", "Copy from the device, pageable"),
    ("rate.kernel_mapped", "Kernel reads host memory"),
    ("rate.kernel_device", "Kernel reads device memory"),
    ("rate.cpu", "Copy within host memory, one thread"),
)
ONE_PORT = 1.3  # Two GPUs at once, of the rate of one: no more than that comes through one port.
COSTS = (
    ("cost.host_alloc", "cudaHostAlloc and its free"),
    ("cost.register", "The same by huge pages, one thread"),
    ("cost.pin", "Registering memory that was touched"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measure", action="store_true",
                        help="measure the speed of the link and the memories, too")
    parser.add_argument("--timeout", metavar="SECONDS", type=units.seconds, default=ASK_SECONDS,
                        help="how long the driver may take to answer (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the facts as one JSON object")
    parser.epilog = EPILOG
    parser.examples = ("zc doctor", "zc doctor --measure --json")


def run(args: argparse.Namespace) -> int:
    facts = _ask("probe", args.timeout)
    if args.measure and facts.get("driver.devices") and "driver.error" not in facts:
        with Progress("measuring the link and the memories", 0) as bar:
            bar.draw(force=True)
            facts.update(measure(args.timeout))
        keep(facts)
    _look_at_views(facts, args)
    this = host.look()
    machine = places.Machine(_device_facts(facts, 0), this, _is_built)
    if not facts.get("driver.devices"):
        machine.gpu["context"] = obstacles.NO_GPU
    machine.gpu.setdefault("context", facts.get("driver.error"))
    verdicts = places.judge(machine)
    if args.json:
        print(json.dumps({**facts, "host": vars(this), "places": {
            name: verdict._asdict() for name, verdict in verdicts.items()}}, indent=1))
    else:
        print("\n".join(_lines(facts, this, verdicts, args.measure)))
    return 0 if "driver.error" not in facts and any(
        verdict.possible for name, verdict in verdicts.items() if name != "pageable") else 1


def _look_at_views(facts: dict[str, Any], args: argparse.Namespace) -> None:
    """Adds the results of pairs on each device that --measure has tried before."""
    devices = range(facts.get("driver.devices", 0) if "driver.error" not in facts else 0)
    reached = any(views.kind(_device_facts(facts, device)) for device in devices)
    if not devices or not (args.measure or reached):
        return
    try:
        found = _try_views() if args.measure else views.ask(args.timeout, names_only=True)
        if args.measure and found:
            views.keep(list(found.values()))
    except install.MissingPart as error:
        screen.message(str(error))
        return
    except OSError as error:
        _not_kept(error, "for the place 'shared'")
    for device, seen in found.items():
        facts[f"gpu{device}.machine"] = seen.machine
        facts[f"gpu{device}.pairs"] = views.kept(seen.machine)
        if args.measure:
            facts[f"gpu{device}.views"] = [step._asdict() for step in seen.steps]


def _try_views() -> dict[int, views.Views]:
    with Progress("trying pairs of host and device blocks", 0) as bar:
        bar.draw(force=True)
        return views.ask(VIEWS_SECONDS)


def _not_kept(error: OSError, purpose: str) -> None:
    screen.message(f"not kept {purpose}: {error.filename}: {error.strerror}; "
                   "XDG_CACHE_HOME names another folder")


def measure(seconds: float = ASK_SECONDS) -> dict[str, Any]:
    """The speed of the link and the memories of device 0."""
    return _ask("measure", seconds + MEASURE_SECONDS)


def keep(facts: dict[str, Any]) -> None:
    """Keeps what was measured for predictions.  Times of a simulated GPU mean nothing."""
    gpu = str(facts.get("gpu0.name"))
    if "measure.error" in facts or SIMULATED in gpu:
        return
    try:
        costs.keep(platform.node(), gpu, facts)
    except OSError as error:
        _not_kept(error, "for predictions")


def _ask(module: str, seconds: float) -> dict[str, Any]:
    """The facts that a module of zclib.doctor finds, with an error where it did not end well."""
    facts, error = child.ask(module, seconds, lambda step: screen.message(
        f"{step} has not returned for {child.SLOW_SECONDS:g} s; doctor gives up after "
        f"{seconds:g} s"))
    if error:
        facts["driver.error" if module == "probe" else "measure.error"] = error
    return facts


def _device_facts(facts: dict[str, Any], device: int) -> dict[str, Any]:
    prefix = f"gpu{device}."
    return {name[len(prefix):]: value for name, value in facts.items() if name.startswith(prefix)}


def _is_built(place: str) -> bool:
    """Whether the library carries a place out, by what its own check says of a rule with it."""
    api = "malloc" if place in ("pinned", "pageable") else "cudaMalloc"
    with output.scratch("zc-doctor-") as folder:
        name = os.path.join(folder, "policy.conf")
        with output.written(name) as file:
            file.write(f"[rule r]\napi = {api}\nplace = {place}\n")
        return f"place '{place}' is not built" not in policies.faults(name)


def _lines(facts: dict[str, Any], this: host.Host, verdicts: dict[str, places.Verdict],
           measured: bool) -> Iterator[str]:
    width = screen.width()
    rows = [*_driver_rows(facts)]
    for device in range(facts.get("driver.devices", 0)):
        rows += _gpu_rows(device, _device_facts(facts, device))
    rows += _trouble_rows(facts, this.kernel)
    rows += host.rows(this)
    rows.append(("libzc", _library()))
    head = max(len(name) for name, _ in rows) + 2
    for name, text in rows:
        yield from names.wrap(f"{name:<{head}}", names.shown(text), width)
    yield ""
    for line in names.wrap("Place     Possible  ", "What to mind, or to change", width):
        yield screen.styled(line, "bold")
    first: dict[str, str] = {}  # The place where a reason stands.
    for name, verdict in verdicts.items():
        place = first.setdefault(verdict.why, name)
        why = verdict.why if place == name or not verdict.why else f"as {place}"
        start = f"{name:<10}{'yes' if verdict.possible else 'no':<10}"
        for line in names.wrap(start, names.shown(why), width):
            yield screen.styled(line, "green" if verdict.possible else "red")
    if measured:
        yield ""
        yield from _measures(facts, width)
        for device in range(facts.get("driver.devices", 0)):
            yield from _steps(device, facts.get(f"gpu{device}.views", []), width)


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _driver_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "driver.version" in facts:
        nvml = f", NVIDIA {facts['nvml.version']}" if "nvml.version" in facts else ""
        yield "Driver", (f"CUDA {_version(facts['driver.version'])}{nvml} "
                         f"({facts.get('driver.path')})")
    if "driver.error" in facts:
        yield "Driver", f"not usable: {facts['driver.error']}"
    if "runtime.version" in facts:
        yield "Runtime", f"CUDA {_version(facts['runtime.version'])} ({facts['runtime.path']})"
    else:
        yield "Runtime", "no shared libcudart is found; programs may hold their own"
    if facts.get("driver.devices") == 0:
        yield "GPU", "none"


def _gpu_rows(device: int, gpu: dict[str, Any]) -> Iterator[tuple[str, str]]:
    simulated = SIMULATED in str(gpu.get("name"))
    mode = COMPUTE_MODES.get(gpu.get("compute_mode"), "")
    yield f"GPU {device}", (f"{gpu.get('name')}, compute {gpu.get('major')}.{gpu.get('minor')}, "
                            f"{units.size(gpu.get('total') or 0)}, "
                            f"{units.size(gpu.get('free') or 0)} free{mode}"
                            + ("; simulated: bytes are exact, times mean nothing" if simulated
                               else ""))
    if "link_generation" in gpu and "link_width" in gpu:
        yield "  link", f"PCIe generation {gpu['link_generation']}, {gpu['link_width']} lanes"
    counters = gpu.get("link_counters")
    yield "  link counters", "readable (NVML)" if counters is True else \
        f"not readable: {counters or 'no NVML'}"
    yield "  managed memory", _yes(gpu.get("concurrent_managed_access"), "concurrent access",
                                   "no concurrent access")
    yield "  host memory", ", ".join([
        _yes(gpu.get("registers") is True, "can be registered", "can't be registered"),
        _yes(gpu.get("registers_read_only") is True, "read-only as well", "not read-only"),
        _yes(gpu.get("host_vmm") or gpu.get("host_numa_vmm"), "in mappings of the driver (VMM)",
             "no mappings of the driver"),
        _yes(views.kind(gpu), f"pageable reached by kernels ({views.kind(gpu)})",
             "pageable not reached by kernels"),
        _yes(gpu.get("host_native_atomic"), "atomics over the link", "no atomics over the link")])


def _trouble_rows(facts: dict[str, Any], kernel: str) -> Iterator[tuple[str, str]]:
    """The known failures where HMM is on, or may be, because the driver does not start."""
    on = "driver.error" in facts or any(
        views.kind(_device_facts(facts, device)) == "HMM"
        for device in range(facts.get("driver.devices", 0)))
    known = views.trouble(str(facts.get("nvml.version", "")), kernel)
    if on and known:
        yield "HMM", f"known to fail with this driver and kernel: {known}; {views.HMM_OFF}"


def _yes(value: Any, yes: str, no: str) -> str:
    return yes if value else no


def _library() -> str:
    try:
        return f"{install.version()} ({install.library()})"
    except install.MissingPart as error:
        return str(error)


def _measures(facts: dict[str, Any], width: int | None) -> Iterator[str]:
    if "measure.error" in facts:
        yield names.shown(f"Not measured: {facts['measure.error']}")
    rows = []
    for key, text in RATES:
        value = facts.get(key)
        if isinstance(value, list):
            rows.append((text, units.rate(*value)))
        elif value is not None:
            rows.append((text, f"not measured: {value}"))
    alone = facts.get("rate.to_device_pinned")
    for key in sorted(key for key in facts if key.startswith("beside.")):
        value, text = facts[key], f"Pinned, to GPU 0 and GPU {key[7:]} at once"
        if isinstance(value, list) and isinstance(alone, list):
            gain = value[0] / value[1] / (alone[0] / alone[1])
            rows.append((text, units.rate(*value) + (
                "" if gain > ONE_PORT else ": one port carries both, 'links = own' fits")))
        else:
            rows.append((text, f"not measured: {value}"))
    for key, text in COSTS:
        value = facts.get(key)
        if isinstance(value, list):
            rows.append((text, f"{value[1] * (1 << 30) / value[0] / 1e6:.0f} ms/GiB"))
        elif value is not None:
            rows.append((text, f"not measured: {value}"))
    if rows:
        yield from table.render([table.text("Measured on GPU 0", least=0),
                                 table.text("Result", least=12)], rows, width)


def _steps(device: int, steps: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    """The trials of pairs on a device."""
    results = {True: "exact", False: "NOT EXACT: ", None: "nothing to try: "}
    rows = [(step["name"], step["what"], results[step["exact"]] + step["why"]) for step in steps]
    if rows:
        yield ""
        yield from table.render([table.text(f"Pairs on GPU {device}", least=0),
                                 table.text("What is tried", least=24),
                                 table.text("Result", least=24)], rows, width)
