# Builds the stand-in for CUPTI, $(B)/sim/libcupti.so.13, where the toolkit has CUPTI's headers.

ifneq ($(wildcard $(CUDA_HOME)/include/cupti.h $(CUDA_HOME)/extras/CUPTI/include/cupti.h),)
sim: $(B)/sim/libcupti.so.13
endif

$(B)/sim/libcupti.so.13: tests/sim/cupti/cupti.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -isystem $(CUDA_HOME)/include \
	    -isystem $(CUDA_HOME)/extras/CUPTI/include $(CFLAGS) -std=gnu11 -fPIC \
	    -fvisibility=hidden $(WARNINGS) -shared -Wl,-soname,libcupti.so.13 $(LDFLAGS) -o $@ $<
