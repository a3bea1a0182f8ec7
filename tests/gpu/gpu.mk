# SPDX-License-Identifier: MIT
# Builds what the tests on a real GPU need beside the library and the programs of kernels/: the
# referee, what watches malloc, and the programs that write down what a driver answers and what
# hardware does.
# Included by the top Makefile, which sets CC, CFLAGS, CUDA_HOME, NVCC, WARNINGS and B.

GPU_TEST_FLAGS = -std=gnu11 -pthread $(CFLAGS) $(WARNINGS) -isystem $(CUDA_HOME)/include \
                 -isystem $(CUDA_HOME)/extras/CUPTI/include
# Toolkits carry CUPTI's headers in one of these folders; the wheels have none.
CUPTI_HEADER := $(firstword $(wildcard $(CUDA_HOME)/include/cupti.h \
                                       $(CUDA_HOME)/extras/CUPTI/include/cupti.h))
# The toolkit's stub stands in for the driver at link time only; its SONAME is libcuda.so.1.
DRIVER_STUB := $(or $(wildcard $(CUDA_HOME)/lib64/stubs/libcuda.so),$(B)/sim/libcuda.so.1)

.PHONY: gpu-tests
gpu-tests: $(patsubst tests/gpu/%.c,$(B)/tests/gpu/%,$(wildcard tests/gpu/*_facts.c)) \
           $(B)/tests/gpu/libmalloc_watch.so \
           $(if $(CUPTI_HEADER),$(B)/tests/gpu/libcupti_referee.so)   ## what tests/gpu needs
ifeq ($(SAN),)
tests: gpu-tests
endif

$(B)/tests/gpu/driver_facts: tests/gpu/driver_facts.def
$(B)/tests/gpu/%_facts: tests/gpu/%_facts.c tests/gpu/pointer_facts.h $(DRIVER_STUB)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(GPU_TEST_FLAGS) -o $@ $< $(DRIVER_STUB)

# Without nvcc they are left out.  The shared ones run on the simulated GPU as well.
CUDA_TESTS := $(patsubst tests/gpu/%.cu,$(B)/tests/gpu/%,$(wildcard tests/gpu/*.cu))
ifneq ($(NVCC),)
gpu-tests: $(CUDA_TESTS:%=%-static) $(CUDA_TESTS:%=%-shared)
endif
define CUDA_TEST
$(1)-%: tests/gpu/$(notdir $(1)).cu $(wildcard tests/gpu/*.cuh) $(DRIVER_STUB)
	$$(call say,NVCC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(NVCC) $$(NVCCFLAGS) -Xcompiler -Wall -cudart $$* -o $$@ $$< $$(DRIVER_STUB)
endef
$(foreach t,$(CUDA_TESTS),$(eval $(call CUDA_TEST,$(t))))

# CUPTI itself is loaded at run time, so that the referee can use the copy that a program has.
$(B)/tests/gpu/libcupti_referee.so: tests/gpu/cupti_referee.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(GPU_TEST_FLAGS) -fPIC -shared -fvisibility=hidden -o $@ $< -ldl

$(B)/tests/gpu/libmalloc_watch.so: tests/gpu/malloc_watch.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(GPU_TEST_FLAGS) -fPIC -shared -o $@ $<
