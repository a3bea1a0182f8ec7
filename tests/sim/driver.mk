# SPDX-License-Identifier: MIT
# Builds the simulated GPU's driver, $(B)/sim/libcuda.so.1.

SIM_DRIVER_DIR := tests/sim/driver
SIM_DRIVER_SRC := $(sort $(wildcard $(SIM_DRIVER_DIR)/*.c))
SIM_DRIVER_OBJ := $(SIM_DRIVER_SRC:%.c=$(B)/%.o) $(B)/sim/driver-stubs.o

# Every ABI version has to be itself, so call.h turns off cuda.h's renaming of the newest ones.  Of
# the library the simulation has what cuda.h may lack, driver/newer.h.
SIM_DRIVER_COMPILE = $(CC) -isystem third_party/uthash -isystem $(CUDA_HOME)/include \
                     -I$(SIM_DRIVER_DIR) -Ishim $(CFLAGS) -std=gnu11 -fPIC -fvisibility=hidden \
                     -pthread -ffile-prefix-map=$(CURDIR)=. $(WARNINGS) -MMD -MP

.PHONY: sim-driver
sim-driver: $(B)/sim/libcuda.so.1

$(B)/sim/libcuda.so.1: $(SIM_DRIVER_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -shared -pthread -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic-functions \
	    -Wl,-z,defs $(LDFLAGS) -o $@ $^ -ldl

$(B)/$(SIM_DRIVER_DIR)/%.o: $(SIM_DRIVER_DIR)/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(SIM_DRIVER_COMPILE) -c -o $@ $<

# Functions that programs ask for and the simulation lacks answer CUDA_ERROR_NOT_SUPPORTED.
$(B)/sim/driver-stubs.c: tests/sim/stubs.awk tests/driver-names.tsv \
                         tests/preload/driver-requests.tsv
	@mkdir -p $(@D)
	$(Q)awk -f $^ > $@

$(B)/sim/driver-stubs.o: $(B)/sim/driver-stubs.c
	$(call say,CC,$@)
	$(Q)$(SIM_DRIVER_COMPILE) -c -o $@ $<

-include $(SIM_DRIVER_OBJ:.o=.d)
