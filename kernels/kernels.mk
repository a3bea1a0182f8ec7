# Builds the CUDA programs of kernels/ into $(B)/kernels: each runtime program with the static
# runtime, with the shared runtime, and with per-thread default streams.  Needs nvcc; without it
# the target `kernels` says so and leaves the programs out.

KERNEL_PROGRAMS := $(basename $(notdir $(wildcard kernels/*.cu)))
KERNEL_BUILDS := static shared ptds
KERNEL_BINARIES := $(foreach p,$(KERNEL_PROGRAMS),$(KERNEL_BUILDS:%=$(B)/kernels/$(p)-%)) \
                   $(B)/kernels/driver_saxpy

# PTX for any card since compute capability 7.5, and machine code for 9.0.
NVCCFLAGS ?= -O2 -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90
KERNEL_FLAGS_static := -cudart static
KERNEL_FLAGS_shared := -cudart shared
KERNEL_FLAGS_ptds := -cudart shared -default-stream per-thread

.PHONY: kernels
ifeq ($(NVCC),)
kernels:
	@echo "kernels: skipped: no nvcc; install a CUDA toolkit and set CUDA_HOME, or run 'make deps'"
else
kernels: $(KERNEL_BINARIES)     ## the sample programs, build/kernels
endif

define KERNEL_RULE
$(B)/kernels/%-$(1): kernels/%.cu kernels/%.cuh kernels/common.cuh kernels/common.h
	$$(call say,NVCC,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(NVCC) $$(NVCCFLAGS) $$(KERNEL_FLAGS_$(1)) -o $$@ $$<
endef
$(foreach build,$(KERNEL_BUILDS),$(eval $(call KERNEL_RULE,$(build))))

$(B)/kernels/driver_saxpy.ptx: kernels/driver_saxpy.cuh
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -arch=compute_75 -ptx -x cu -o $@ $<

# PTX is text: every line becomes a piece of one C string.
$(B)/kernels/driver_saxpy_ptx.h: $(B)/kernels/driver_saxpy.ptx
	@{ echo 'static const char driver_saxpy_ptx[] ='; \
	   sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/    "&\\n"/' $<; echo '    ;'; } > $@

# The toolkit's stub stands in for the driver at link time only; its SONAME is libcuda.so.1.
$(B)/kernels/driver_saxpy: kernels/driver_saxpy.c kernels/common.h $(B)/kernels/driver_saxpy_ptx.h
	$(call say,CC,$@)
	$(Q)$(CC) -O2 -std=gnu11 -Wall -Wextra -isystem $(CUDA_HOME)/include -I$(B)/kernels -o $@ $< \
	    -L$(CUDA_HOME)/lib64/stubs -L$(CUDA_HOME)/lib/stubs -lcuda
