/* SPDX-License-Identifier: MIT */
/* Which peers' links are used: how many, of idle GPUs alone, and until when. */
#include "copy_links_test.h"

static void a_peer_that_can_not_help_is_said_once(void **state)
{
    static const struct {
        int devices, mode, access, native, world;
        unsigned links;
        const char *why;
    } rows[] = {{1, 0, 1, 1, -1, 2, "no other GPU"},
                {2, 3, 1, 1, -1, 2, "compute mode"},
                {2, 0, 0, 1, -1, 2, "reaches no peer"},
                {2, 0, 1, 0, -1, 2, "no NVLink"},
                {2, 0, 1, 1, 2, ZC_LINKS_IDLE, "other ranks"}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        anew(NULL);
        fake.devices = rows[i].devices;
        fake.mode = rows[i].mode;
        fake.access = rows[i].access;
        fake.native = rows[i].native;
        fake.job.local_world = rows[i].world;
        policy->links = rows[i].links;
        links.bytes = (uint64_t)1 << 40;
        assert_false(alone(64 * MIB));
        assert_int_equal(fake.told, 1);
        assert_non_null(strstr(fake.text, "keep to its own link"));
        assert_int_equal(fake.contexts, 0);
    }
    anew(NULL); /* A number of links takes them all the same; and one rank is alone. */
    fake.job.local_world = 2;
    assert_true(alone(64 * MIB));
    anew(NULL);
    fake.job.local_world = 1;
    policy->links = ZC_LINKS_IDLE;
    links.bytes = (uint64_t)1 << 40;
    assert_true(alone(64 * MIB));
}

static void no_more_links_are_taken_than_the_policy_says(void **state)
{
    (void)state;
    struct zc_copy c;
    for (unsigned most = 2; most <= DEVICES + 1; most++) {
        anew(NULL);
        policy->links = most;
        assert_true(copied(&c, 64 * MIB, true));
        assert_int_equal(c.links, most < DEVICES ? most : DEVICES);
        run_all(1);
    }
}

static void of_many_devices_the_first_sixteen_are_looked_at(void **state)
{
    (void)state;
    policy->links = ZC_LINKS_MAX;
    fake.devices = ZC_LINKS_MAX + 4;
    fake.mode = 1;
    assert_false(alone(64 * MIB));
    assert_int_equal(fake.mode_asked, ZC_LINKS_MAX - 1);
}

/* 8 GiB for the first, 16 for the next. */
static void an_idle_peer_is_used_once_copies_have_paid_for_it(void **state)
{
    (void)state;
    struct zc_copy c;
    policy->links = ZC_LINKS_IDLE;
    for (unsigned i = 1; i <= 200; i++) {
        c = copy_of(128 * MIB, true);
        assert_int_equal(zc_links_copy(&c, NULL), i >= 64);
        assert_int_equal(c.links, i < 64 ? 1 : i < 128 ? 2 : i < 192 ? 3 : 4);
        run_all(i);
        assert_int_equal(fake.told, 0);
    }
    assert_int_equal(fake.contexts, 3);
    assert_int_equal(fake.destroyed, 0);
}

static void paid(void)
{
    anew(NULL);
    policy->links = ZC_LINKS_IDLE;
    fake.devices = 2;
    links.bytes = (uint64_t)1 << 40;
}

static void a_peer_that_the_program_uses_is_no_idle_one(void **state)
{
    (void)state;
    fake.rests = 0; /* A number of links does not ask. */
    assert_true(alone(64 * MIB));
    paid();
    fake.rests = 0;
    assert_false(alone(64 * MIB));
    fake.rests = 2;
    assert_true(alone(64 * MIB));
    fake.others = 2; /* A second context there. */
    assert_false(alone(64 * MIB));
    fake.rests = 6;
    assert_true(alone(64 * MIB));
    fake.known = false;
    assert_false(alone(64 * MIB));
    fake.known = true;
    fake.busy_lock = true;
    assert_false(alone(64 * MIB));
    fake.busy_lock = false;
    fake.leaves = true;
    assert_false(alone(64 * MIB));
    fake.leaves = false;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.told, 0);
}

/* The driver tells of memory alone, and of a device on which the program is not. */
static void a_peer_that_another_process_uses_is_given_back(void **state)
{
    (void)state;
    struct zc_copy c;
    paid();
    assert_true(alone(64 * MIB));
    unsigned asked = fake.asked;
    fake.used = (size_t)1 << 30;
    fake.now += 99999999;
    assert_true(alone(64 * MIB)); /* It is asked ten times a second. */
    assert_int_equal(fake.asked, asked);
    fake.now += 1;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.asked, asked + 1);
    fake.now += 50000000;
    assert_true(alone(64 * MIB));
    assert_int_equal(fake.asked, asked + 1);
    fake.used++;
    fake.now += 100000000;
    fake.active = 1; /* The program has the device itself: the memory may be its own. */
    assert_true(alone(64 * MIB));
    assert_true(copied(&c, 64 * MIB, true)); /* Has work to do. */
    fake.active = 0;
    c = copy_of(64 * MIB, true);
    assert_false(zc_links_copy(&c, NULL));
    assert_int_equal(fake.destroyed, 0);
    run_all(1);
    assert_false(alone(64 * MIB));
    assert_int_equal(fake.destroyed, 1);
    assert_int_equal(fake.told, 1);
    assert_non_null(strstr(fake.text, "another process"));
    assert_false(alone(64 * MIB));
    assert_int_equal(fake.destroyed, 1);
    assert_int_equal(fake.told, 1);
}

static void of_devices_below_one_port_idle_takes_one(void **state)
{
    static const struct {
        const char *bus[DEVICES];
        unsigned links, taken;
    } rows[] = {{{"1:0", "1:2", "1:3", "1:4"}, ZC_LINKS_IDLE, 0},
                {{"1:0", "2:2", "2:3", "1:4"}, ZC_LINKS_IDLE, 1},
                {{"1:0", "2:2", "3:3", "2:4"}, ZC_LINKS_IDLE, 2},
                {{"1:0", "1:2", "1:3", "1:4"}, 3, 2},
                {{NULL, NULL, NULL, NULL}, ZC_LINKS_IDLE, 3},
                {{"none:A", "none:B", "none:A", "4:0"}, ZC_LINKS_IDLE, 2}};
    (void)state;
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zc_copy c;
        anew(NULL);
        policy->links = rows[i].links;
        links.bytes = (uint64_t)1 << 40;
        for (unsigned d = 0; d < DEVICES; d++)
            fake.bus[d] = rows[i].bus[d];
        assert_int_equal(copied(&c, 64 * MIB, true), rows[i].taken > 0);
        assert_int_equal(c.links, rows[i].taken + 1);
        run_all(1);
        assert_int_equal(fake.told, rows[i].taken == 0);
        assert_true(rows[i].taken || strstr(fake.text, "share a PCIe port"));
        for (unsigned d = 0; d < DEVICES; d++) /* Sysfs is asked once. */
            fake.bus[d] = rows[i].bus[d] ? "9:9" : NULL;
        copied(&c, 64 * MIB, true);
        assert_int_equal(c.links, rows[i].taken + 1);
        run_all(1);
    }
}

static void many_small_copies_in_a_row_give_the_contexts_back(void **state)
{
    (void)state;
    struct zc_copy c;
    for (unsigned way = 0; way < 4; way++) {
        anew(NULL);
        policy->links = ZC_LINKS_IDLE;
        links.bytes = (uint64_t)1 << 40;
        for (unsigned i = 0; i < 4095; i++)
            zc_links_small();
        assert_true(alone(64 * MIB)); /* The row is over. */
        for (unsigned i = 0; i < 4095; i++)
            zc_links_small();
        assert_int_equal(fake.destroyed, 0);
        if (way == 3) /* A link that has work stays. */
            assert_true(copied(&c, 64 * MIB, true));
        for (unsigned i = 0; i < 4095 && way == 3; i++)
            zc_links_small();
        zc_captures = way == 1;
        fake.closing = way == 2;
        fake.logged = 0;
        zc_links_small();
        zc_captures = 0;
        fake.closing = false;
        assert_int_equal(fake.destroyed, way == 0 ? 3 : 0);
        assert_int_equal(fake.logged, way == 0 ? 3 : 0);
        run_all(1);
        for (unsigned i = 0; i < 3 * 4096; i++)
            zc_links_small();
        assert_int_equal(fake.destroyed, way == 0 ? 3 : 0); /* Once, until a large one comes. */
        assert_true(alone(64 * MIB));                       /* They are made again. */
        assert_int_equal(fake.contexts, 3);
        assert_true(copied(&c, 64 * MIB, false) && c.links == 4);
        run_all(1);
    }
}

static void a_device_short_of_memory_gets_back_what_a_link_has_there(void **state)
{
    (void)state;
    struct zc_copy c;
    assert_true(alone(64 * MIB));
    for (int place = 0; place <= ZC_PLACE_COUNT; place++) {
        if (place != ZC_PLACE_COUNT && place != ZC_PLACE_DEVICE)
            assert_int_equal(zc_module_links.reclaim(place), 0);
    }
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_COUNT), 0); /* None on the own device. */
    fake.current[0] = (CUcontext)0x3001;
    fake.calls = 0;
    fake.fails = 1;
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_DEVICE), 0);
    fake.fails = 0;
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_DEVICE), 1);
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_DEVICE), 0);
    fake.current[0] = PEER_CONTEXT(2);
    links.of[2].claimed = 1; /* A copy uses it. */
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_COUNT), 0);
    links.of[2].claimed = 0;
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_COUNT), 1);
    fake.current[0] = PEER_CONTEXT(ZC_LINKS_MAX);
    assert_int_equal(zc_module_links.reclaim(ZC_PLACE_COUNT), 0);
    fake.current[0] = OWN_CONTEXT;
    assert_int_equal(fake.destroyed, 2);
    assert_true(copied(&c, 64 * MIB, true));
    assert_int_equal(c.links, 2); /* They are not made again. */
    run_all(1);
}

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
            assert_int_equal(port_below(paths[i]) == port_below(paths[j]), i == 1 && j == 0);
    assert_true(port_below("") != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_peer_that_can_not_help_is_said_once),
        TEST(no_more_links_are_taken_than_the_policy_says),
        TEST(of_many_devices_the_first_sixteen_are_looked_at),
        TEST(an_idle_peer_is_used_once_copies_have_paid_for_it),
        TEST(a_peer_that_the_program_uses_is_no_idle_one),
        TEST(a_peer_that_another_process_uses_is_given_back),
        TEST(of_devices_below_one_port_idle_takes_one),
        TEST(many_small_copies_in_a_row_give_the_contexts_back),
        TEST(a_device_short_of_memory_gets_back_what_a_link_has_there),
        TEST(devices_below_one_port_of_the_host_share_it),
    };
    return RUN_TESTS(tests);
}
