#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A rule names a list of places.  A request takes the first one that is possible and within its
# limits, or else stays where the program put it; the log says why the others were passed over.

load places.bash

setup() {
    placed_by requests
}

@test "a request takes the first place of the list" {
    for place in mapped managed vmm device; do
        places_of "place = $place, device" 2
        [[ $places == "$place: -" ]]
    done
}

@test "what can't be shared is plain device memory, whatever the list says, and the log says so" {
    local why="its rule does not say 'access = read'"
    places_of 'place = shared, vmm' 1
    [[ $places == "device: shared: $why" ]]
    places_of $'place = shared, vmm\naccess = read' 1
    [[ $places == "device: shared: no rule gives host blocks 'shared'" ]]
    places_of $'[defaults]\nmax_device = 2M\n[rule all]\nplace = shared, mapped' 1 3
    [[ $places == "device: shared: $why"$'\n'"mapped: shared: over max_device" ]]
}

@test "at the end of the list a request goes where the program put it" {
    SIM_FAIL=cuMemAllocManaged:2:0 places_of 'place = managed' 1
    [[ $places == 'device: managed: cuMemAllocManaged refuses' && $codes == 0 ]]
}

@test "a mapped block that the driver refuses to pin takes the next place" {
    SIM_FAIL=cuMemHostRegister_v2:2:0 places_of 'place = mapped, vmm' 4 0.5
    [[ $places == $'vmm: mapped: cuMemHostRegister refuses\nmapped: -' && $codes == $'0\n0' ]]
    SIM_FAIL=cuMemHostAlloc:2:0 places_of 'place = mapped, managed' 4 0.5
    [[ $places == $'mapped: -\nmanaged: mapped: cuMemHostAlloc refuses' && $codes == $'0\n0' ]]
}

@test "what is full on the device goes down the list" {
    export SIM_MEMORY_MIB=16
    places_of 'place = device, mapped' 8 8 8
    [[ $places == $'device: -\ndevice: -\nmapped: device: out of memory' ]]
}

@test "mapped memory takes the next place where a control group has not so much left" {
    in_group 1 true || skip "no mount namespaces"
    local mib
    write_policy $'[defaults]\nmax_pinned = 1G\n[rule all]\nplace = mapped, vmm'
    for mib in 24 25; do
        rm -f "$ZC_LOG"
        run -0 in_group $(((mib << 20) - 1)) env LD_PRELOAD="$LIBZC" \
            ZC_POLICY="$BATS_TEST_TMPDIR/policy.conf" "$program" 24
        run -0 jq -r 'select(.type == "alloc") | "\(.place) \(.why)"' "$ZC_LOG"
        [[ $mib -ne 24 || $output == "vmm mapped: the host has not so much memory left" ]]
        [[ $mib -ne 25 || $output == "mapped null" ]]
    done
}

@test "what no place takes gives the driver's own error" {
    export SIM_MEMORY_MIB=16
    places_of 'place = device' 12 12
    [[ $codes == $'0\n2' ]]
    places_of 'place = vmm' 12 12 2
    [[ $codes == $'0\n2\n0' ]]
    places_of 'place = device, vmm, managed' 12 12
    [[ $codes == $'0\n2' ]]
}

@test "requests of up to 1 MiB take the next place instead of vmm" {
    local policy why='at most 1 MiB, of which the driver packs several into the 2 MiB that it'
    why+=' would take'
    for policy in 'place = vmm' $'place = vmm\ncommit = lazy' $'place = vmm\ngrow = yes' \
        $'place = vmm\nspill = move'; do
        places_of "$policy" 1 2 0.5
        [[ $places == "device: vmm: $why"$'\n'"vmm: -"$'\n'"device: vmm: $why" ]]
    done
}

@test "max_pinned bounds mapped memory" {
    places_of $'[defaults]\nmax_pinned = 6M\n[rule all]\nplace = mapped, vmm' 4 4 0.5 4
    over='vmm: mapped: over max_pinned'
    [[ $places == $'mapped: -\n'"$over"$'\nmapped: -\n'"$over" ]]
}

@test "what a program takes later does not pass the device beside managed memory" {
    local managed=$'[rule early]\nsize = 8M\nplace = managed\n[rule late]\nsize = 12M\nplace = '
    export SIM_MEMORY_MIB=16 SIM_MANAGED=untouched
    run -0 timeout 30 "$program" 8 12
    local bare=$output
    [[ $bare == $'0\n2' ]]
    for place in device vmm; do
        places_of "$managed$place" 8 12
        [[ $codes == "$bare" && $places == 'managed: -' ]]
    done
    places_of "${managed}device, mapped" 8 12 7
    [[ $codes == $'0\n0\n0' ]]
    [[ $places == $'managed: -\nmapped: device: out of memory\ndevice: -' ]]
    places_of "${managed}device" -f 8 12 # Freed memory is no more in the way than in a bare run.
    [[ $codes == $'0\n0' ]]
    places_of $'[defaults]\nmax_device = 15M\n'"${managed/12M/5M}device" 8 5 # Counted once.
    [[ $codes == $'0\n0' ]]
    places_of "${managed}device" 8 h20 # Host memory takes nothing of the device.
    [[ $codes == $'0\n0' ]]
}

@test "max_managed bounds managed memory, and so does what the device has free" {
    places_of $'[defaults]\nmax_managed = 6M\n[rule all]\nplace = managed, device' 4 4 1
    [[ ${places//over max_managed*/over} == $'managed: -\ndevice: managed: over' ]]
    [[ $places == *$'\nmanaged: -' ]]
    SIM_MEMORY_MIB=16 places_of 'place = managed, mapped' 12 12
    [[ $places == $'managed: -\nmapped: managed: over max_managed, or over what is free'* ]]
}

# The most bytes that were alive in a place at once, by the log's own order: peak_of PLACE
peak_of() {
    python3 -c 'import json, sys
alive, peak = {}, 0
for line in map(json.loads, open(sys.argv[1])):
    if line["type"] == "alloc" and line["place"] == sys.argv[2]:
        alive[line["block"]] = line["size_bytes"]
    elif line["type"] == "free":
        alive.pop(line["block"], 0)
    peak = max(peak, sum(alive.values()))
print(peak)' "$ZC_LOG" "$1"
}

@test "limits hold while threads ask at the same time, and are reached" {
    local policy
    for policy in managed:$'[defaults]\nmax_managed = 10M\n[rule a]\nplace = managed, mapped' \
        mapped:$'[defaults]\nmax_pinned = 10M\n[rule a]\nplace = mapped' \
        vmm:$'[defaults]\nmax_device = 10M\n[rule a]\nplace = vmm, mapped' \
        device:$'[defaults]\nmax_device = 10M\n[rule a]\nplace = device, mapped' \
        managed:$'place = managed, mapped\nbudget = 10M'; do
        places_of "${policy#*:}" -t 8
        most=$(peak_of "${policy%%:*}")
        ((most == 10 << 20))
    done
}

@test "max_device bounds device and vmm memory together" {
    places_of $'[defaults]\nmax_device = 10M\n[rule all]\nplace = vmm, device, mapped' 4 4 4
    [[ $places == $'vmm: -\nvmm: -\nmapped: vmm: over max_device; device: over max_device' ]]
    places_of $'[defaults]\nmax_device = 10M\n[rule a]\nsize = 6M..\nplace = device
[rule b]\nplace = vmm, mapped' 8 4 2
    [[ $places == $'device: -\nmapped: vmm: over max_device\nvmm: -' ]]
}

@test "freed memory counts no longer against a limit" {
    places_of $'[defaults]\nmax_pinned = 6M\n[rule all]\nplace = mapped' 4 4
    [[ $places == $'mapped: -\ndevice: mapped: over max_pinned' ]]
    places_of $'[defaults]\nmax_pinned = 6M\n[rule all]\nplace = mapped' -f 4 5 3
    [[ $places == $'mapped: -\nmapped: -\nmapped: -' ]]
    places_of $'[defaults]\nmax_managed = 6M\n[rule all]\nplace = managed' -f 4 5 3
    [[ $places == $'managed: -\nmanaged: -\nmanaged: -' ]]
    places_of $'[defaults]\nmax_device = 6M\n[rule all]\nplace = vmm' -f 4 5 3
    [[ $places == $'vmm: -\nvmm: -\nvmm: -' ]]
}

# A device without a property, by its attribute's number in cuda.h: the place is passed over.
@test "a device without a property passes its place over" {
    # CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, _CONCURRENT_MANAGED_ACCESS
    for attribute in 83 89; do
        SIM_ATTR=$attribute=0 places_of 'place = managed, vmm' 2
        [[ $places == 'vmm: managed: the device has no concurrent managed access' ]]
    done
    # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    SIM_ATTR=102=0 places_of 'place = vmm, mapped' 2
    [[ $places == 'mapped: vmm: the device has no virtual memory management' ]]
    # CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, _CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
    for attribute in 41 91; do
        SIM_ATTR=$attribute=0 places_of 'place = mapped, managed' 1
        [[ $places == "managed: mapped: the device can't use host addresses" ]]
    done
}

@test "the first rule that matches decides, by size" {
    places_of $'[rule small]\nsize = ..1M\nplace = mapped\n[rule large]\nplace = vmm' 0.5 4 1 2
    [[ $(sort <<<"$places" | uniq -c | tr -s ' ' | tr '\n' ,) == ' 2 mapped: -, 2 vmm: -,' ]]
}

@test "a budget bounds what a rule has alive in its first place; the rest spills" {
    for place in vmm mapped managed device; do
        local next=mapped
        [[ $place == mapped ]] && next=vmm
        places_of "place = $place, $next"$'\nbudget = 8M' 4 4 4 1
        [[ $places == "$place: -"$'\n'"$place: -"$'\n'"$next: $place: over its budget"$'\n'* ]]
        [[ $codes == $'0\n0\n0\n0' ]]
    done
}

@test "what is freed is given back to the budget, in every place" {
    for place in vmm mapped managed device; do
        places_of "place = $place"$'\nbudget = 8M' -f 6 6 6 8
        [[ $places == "$place: -"$'\n'"$place: -"$'\n'"$place: -"$'\n'"$place: -" ]]
    done
}

@test "a budget in percent is of the device's memory; at the end of the list nothing is refused" {
    export SIM_MEMORY_MIB=64
    places_of $'place = vmm\nbudget = 25%' 12 4 1
    [[ $places == $'vmm: -\nvmm: -\ndevice: vmm: over its budget' && $codes == $'0\n0\n0' ]]
}

@test "each rule has its own budget, and a refused request costs none" {
    local policy=$'[rule small]\nsize = ..4M\nplace = vmm, mapped\nbudget = 4M\n'
    policy+=$'[rule large]\nsize = 5M..\nplace = vmm, mapped\nbudget = 8M'
    places_of "$policy" 4 8 1 5
    [[ $places == $'vmm: -\nvmm: -\nmapped: vmm: over its budget\nmapped: vmm: over its budget' ]]
    SIM_FAIL=cuMemAddressReserve:2:1 places_of $'place = vmm, mapped\nbudget = 4M' 4 4
    [[ $places == $'mapped: vmm: cuMemAddressReserve refuses\nvmm: -' ]]
    SIM_FAIL=cuMemAlloc_v2:999:1 places_of $'place = device, mapped\nbudget = 4M' 4 4
    [[ $places == 'device: -' && $codes == $'999\n0' ]]
}
