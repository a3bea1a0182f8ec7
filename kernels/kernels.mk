# SPDX-License-Identifier: MIT
# Builds the CUDA programs of kernels/ into $(B)/kernels: each runtime program with the static and
# with the shared runtime, and those of KERNEL_PTDS with per-thread default streams as well.  Needs
# nvcc; without it the target `kernels` says so and leaves the programs out.

KERNEL_PROGRAMS := $(basename $(notdir $(wildcard kernels/*.cu)))
# Per-thread default streams take other entry points of the driver; a few programs reach them all.
KERNEL_PTDS := gather graph peers pipeline pitched pooled vecadd
KERNEL_BINARIES := $(KERNEL_PROGRAMS:%=$(B)/kernels/%-static) \
                   $(KERNEL_PROGRAMS:%=$(B)/kernels/%-shared) \
                   $(KERNEL_PTDS:%=$(B)/kernels/%-ptds) $(B)/kernels/driver_saxpy

# PTX for any card since compute capability 7.5, and machine code for 9.0.  Without fused
# multiply-add, results are those of the CPU bit for bit, so that programs can verify all of them.
NVCCFLAGS ?= -O2 -gencode arch=compute_75,code=compute_75 -gencode arch=compute_90,code=sm_90
KERNEL_COMPILE = $(NVCC) $(NVCCFLAGS) -fmad=false -MMD -MP

.PHONY: kernels
ifeq ($(NVCC),)
kernels:
	@echo "kernels: skipped: no nvcc; install a CUDA toolkit and set CUDA_HOME, or run 'make deps'"
else
kernels: $(KERNEL_BINARIES)     ## the sample programs, build/kernels
endif

$(B)/kernels/obj/%.o: kernels/%.cu
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(KERNEL_COMPILE) -c -o $@ $<

$(B)/kernels/obj/%.ptds.o: kernels/%.cu
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(KERNEL_COMPILE) -default-stream per-thread -c -o $@ $<

# The toolkit's stub stands in for the driver at link time only; its SONAME is libcuda.so.1.
KERNEL_DRIVER := -L$(CUDA_HOME)/lib64/stubs -L$(CUDA_HOME)/lib/stubs -lcuda
$(B)/kernels/grow_vmm-static $(B)/kernels/grow_vmm-shared: KERNEL_LIBS := $(KERNEL_DRIVER)

# One object serves both runtimes: which one is a matter of the link alone.
$(B)/kernels/%-static: $(B)/kernels/obj/%.o
	$(call say,LINK,$@)
	$(Q)$(NVCC) -cudart static -o $@ $< $(KERNEL_LIBS)

$(B)/kernels/%-shared: $(B)/kernels/obj/%.o
	$(call say,LINK,$@)
	$(Q)$(NVCC) -cudart shared -o $@ $< $(KERNEL_LIBS)

$(B)/kernels/%-ptds: $(B)/kernels/obj/%.ptds.o
	$(call say,LINK,$@)
	$(Q)$(NVCC) -cudart shared -o $@ $<

.SECONDARY: $(KERNEL_PROGRAMS:%=$(B)/kernels/obj/%.o) $(KERNEL_PTDS:%=$(B)/kernels/obj/%.ptds.o)
-include $(wildcard $(B)/kernels/obj/*.d)

$(B)/kernels/driver_saxpy.ptx: kernels/driver_saxpy.cuh
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -arch=compute_75 -ptx -x cu -o $@ $<

# PTX is text: every line becomes a piece of one C string.
$(B)/kernels/driver_saxpy_ptx.h: $(B)/kernels/driver_saxpy.ptx
	@{ echo 'static const char driver_saxpy_ptx[] ='; \
	   sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/    "&\\n"/' $<; echo '    ;'; } > $@

$(B)/kernels/driver_saxpy: kernels/driver_saxpy.c kernels/common.h $(B)/kernels/driver_saxpy_ptx.h
	$(call say,CC,$@)
	$(Q)$(CC) -O2 -std=gnu11 -Wall -Wextra -isystem $(CUDA_HOME)/include -I$(B)/kernels -o $@ $< \
	    $(KERNEL_DRIVER)
