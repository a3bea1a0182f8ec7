# SPDX-License-Identifier: MIT
# Builds the test programs of tests/ into $(B)/tests.  A program's name says what it links with:
# sim_* the simulated driver, runtime_* the simulated runtime as well, everything else the library's
# own objects (libzc.a).  The programs of tests/preload/programs are unaware of libzc and get it by
# LD_PRELOAD; lib*.c there are shared objects for them to open.

TEST_CFLAGS = -D_GNU_SOURCE -Ishim -Itests -I. -isystem third_party/uthash \
              -isystem $(CUDA_HOME)/include $(CFLAGS) -std=gnu11 \
              -pthread $(WARNINGS)
SIM_LIBS := $(if $(wildcard tests/sim/driver.mk),$(B)/sim/libcuda.so.1) \
            $(if $(wildcard tests/sim/runtime.mk),$(B)/sim/libcudart.so.13)
SIM_KERNEL_LIBS := $(patsubst tests/sim/kernels/%.cpp,$(B)/sim/kernels/%.so,\
                     $(wildcard tests/sim/kernels/*.cpp))

UNIT_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/unit/*.c))
STRESS_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/stress/*.c))
# On a sanitizer build the library cannot be preloaded into a program without the sanitizer, so
# it tests what links the library's objects only.
ifneq ($(SAN),)
UNIT_TESTS := $(filter-out $(B)/tests/unit/sim_% $(B)/tests/unit/runtime_%,$(UNIT_TESTS))
endif
PRELOAD_LIBS := $(patsubst %.c,$(B)/%.so,$(wildcard tests/preload/programs/lib*.c))
PRELOAD_PROGRAMS := $(patsubst %.c,$(B)/%,$(filter-out tests/preload/programs/lib%,\
                      $(wildcard tests/preload/programs/*.c)))
BENCHES := $(patsubst %.c,$(B)/%,$(wildcard tests/bench/*.c))
FUZZERS := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZ_REPLAYS := $(FUZZERS:%=%-replay)
FUZZ_SECONDS ?= 60

.PHONY: tests sim benches preload-programs
tests: all $(UNIT_TESTS) $(STRESS_TESTS) $(FUZZ_REPLAYS)   ## the tests, without running them
ifeq ($(SAN),)
tests: sim benches $(PRELOAD_PROGRAMS) $(PRELOAD_LIBS) $(if $(wildcard kernels/kernels.mk),kernels)
endif
sim: $(SIM_LIBS) $(SIM_KERNEL_LIBS) $(DEMO)     ## the simulated GPU, build/sim
benches: $(BENCHES)
preload-programs: $(PRELOAD_PROGRAMS) $(PRELOAD_LIBS)

# A program finds the simulated GPU beside it even where LD_LIBRARY_PATH is not set.
SIM_RPATH = -Wl,-rpath,'$$ORIGIN/../../sim'
LIBS_sim = $(B)/sim/libcuda.so.1
LIBS_runtime = $(B)/sim/libcudart.so.13 $(B)/sim/libcuda.so.1
prefix = $(firstword $(subst _, ,$(notdir $(1))))
libs = $(or $(LIBS_$(call prefix,$(1))),$(2))

define TEST_PROGRAM
$(B)/$(basename $(1)): $(1) $(call libs,$(1),$(3)) $(B)/command
	$$(call say,CC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(TEST_CFLAGS) -MMD -MP -MT $$@ -MF $$@.d $$(SIM_RPATH) $$(LDFLAGS) -o $$@ $$< \
	    $(call libs,$(1),$(3)) $(2) -lm -ldl
endef
$(foreach t,$(wildcard tests/unit/*.c),$(eval $(call TEST_PROGRAM,$(t),-lcmocka,$(B)/libzc.a)))
$(foreach t,$(wildcard tests/stress/*.c),$(eval $(call TEST_PROGRAM,$(t),-lcmocka,$(B)/libzc.a)))
$(foreach t,$(wildcard tests/bench/*.c),$(eval $(call TEST_PROGRAM,$(t),,$(B)/libzc.a)))

$(PRELOAD_LIBS): $(B)/%.so: %.c $(B)/command
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -MT $@ -MF $@.d -fPIC -shared $(LDFLAGS) -o $@ $< -ldl

# They link with the simulation as others do with the driver's and the runtime's libraries.
$(PRELOAD_PROGRAMS): $(B)/%: %.c $(SIM_LIBS) $(B)/command
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -MMD -MP -MT $@ -MF $@.d $(LDFLAGS) -o $@ $< \
	    -Wl,--as-needed $(SIM_LIBS) -ldl

# It calls madvise, which the simulation has too, and starts where there is no driver.
$(B)/tests/preload/programs/host_stress: private SIM_LIBS :=

# The replay feeds files to the same harness without libFuzzer, so any compiler can build it.
$(B)/tests/fuzz/%_fuzz-replay: tests/fuzz/%_fuzz.c tests/fuzz/replay.c $(B)/libzc.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) $(LDFLAGS) -o $@ $^

$(B)/tests/fuzz/%_fuzz: tests/fuzz/%_fuzz.c $(wildcard policy/*.c policy/*.h policy/*.def)
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)clang $(TEST_CFLAGS) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ $< \
	    $(wildcard policy/*.c)

-include $(wildcard $(B)/tests/*/*.d $(B)/tests/*/*/*.d)
