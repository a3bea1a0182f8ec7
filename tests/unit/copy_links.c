/* SPDX-License-Identifier: MIT */
/* Ports of the host, by the paths of devices below them. */
#define __CUDA_API_VERSION_INTERNAL /* As the library is built. */

#include "copy/links.h"

#include "base_test.h"

static void devices_below_one_port_of_the_host_share_it(void **state)
{
    static const char *const paths[] = {
        "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0",
        "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0",
        "../../../devices/pci0000:00/0000:00:02.0/0000:05:00.0",
        "../../../devices/pci0000:80/0000:00:01.0/0000:81:00.0",
        "../../../devices/pci0000:00/0000:00:06.0",
        "../../../devices/pci0000:00/0000:00:07.0",
        "0000:08:00.0",
        "0000:09:00.0"};
    (void)state;
    for (unsigned i = 0; i < sizeof(paths) / sizeof(*paths); i++)
        for (unsigned j = 0; j < i; j++)
            assert_int_equal(zc_links_port(paths[i]) == zc_links_port(paths[j]), i == 1 && j == 0);
    assert_true(zc_links_port("") != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_below_one_port_of_the_host_share_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
