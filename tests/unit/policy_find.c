/* SPDX-License-Identifier: MIT */
/*
 * Which policy file is opened, and which is refused and why. Each test runs in a folder of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy_test.h"

/* The result of zc_policy_open(). */
struct found {
    enum zc_policy_find_result result;
    int fd; /* -1 where not open */
    char path[256], why[128];
};

static struct found find(const char *env_path)
{
    struct found found = {.fd = -1};

    errno = ERANGE;
    found.result = zc_policy_open(env_path, &found.fd, found.path, sizeof found.path, found.why,
                                  sizeof found.why);
    assert_int_equal(errno, ERANGE);
    return found;
}

static void write_file(const char *path, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "# text\n", 7), 7);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void assert_found(struct found found, const char *path)
{
    char text[8] = "";

    assert_int_equal(found.result, ZC_POLICY_FOUND);
    assert_string_equal(found.path, path);
    assert_string_equal(found.why, "");
    assert_int_equal(fcntl(found.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(read(found.fd, text, 7), 7);
    assert_string_equal(text, "# text\n");
    close(found.fd);
}

static void assert_refused(struct found found, const char *path, const char *why)
{
    assert_int_equal(found.result, ZC_POLICY_REFUSED);
    assert_int_equal(found.fd, -1);
    assert_string_equal(found.path, path);
    assert_string_equal(found.why, why);
}

static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/zc-find-XXXXXX");

    *state = folder;
    return mkdtemp(folder) == NULL || chdir(folder) != 0;
}

static int leave_folder(void **state)
{
    unlink("policy.conf");
    unlink("named.conf");
    unlink("profile.conf");
    rmdir("policy.conf");
    int failed = chdir("/") != 0 || rmdir(*state) != 0;
    free(*state);
    return failed;
}

static void the_named_file_comes_before_the_folder_s(void **state)
{
    (void)state;
    write_file("policy.conf", 0644);
    write_file("named.conf", 0666);
    assert_found(find("named.conf"), "named.conf");
    assert_found(find(NULL), "./policy.conf");
    assert_found(find(""), "./policy.conf");
}

static void a_named_file_that_is_missing_is_not_replaced(void **state)
{
    (void)state;
    write_file("policy.conf", 0644);
    assert_refused(find("named.conf"), "named.conf", "there is no such file");
    assert_refused(find("@everyday"), "@everyday",
                   "there is no such file; `zc presets NAME >my.conf` writes a preset into one");
    assert_refused(find("everyday"), "everyday",
                   "there is no such file; `zc presets NAME >my.conf` writes a preset into one");
    assert_refused(find("policy.conf/x"), "policy.conf/x", "a part of the path is not a folder");
}

static void off_means_no_policy(void **state)
{
    (void)state;
    write_file("policy.conf", 0644);
    struct found found = find("off");

    assert_int_equal(found.result, ZC_POLICY_NONE);
    assert_string_equal(found.path, "");
}

static void no_file_is_no_policy(void **state)
{
    (void)state;
    if (access(ZC_POLICY_SYSTEM_PATH, F_OK) == 0)
        skip();
    struct found found = find(NULL);

    assert_int_equal(found.result, ZC_POLICY_NONE);
    assert_int_equal(found.fd, -1);
    assert_string_equal(found.why, "");
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    (void)state;
    write_file("policy.conf", 0664);
    assert_refused(find(NULL), "./policy.conf",
                   "others may write to it; take that right away (chmod go-w)");
    write_file("policy.conf", 0646);
    assert_refused(find(NULL), "./policy.conf",
                   "others may write to it; take that right away (chmod go-w)");
    write_file("policy.conf", 0600);
    assert_found(find(NULL), "./policy.conf");
}

static void a_file_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("policy.conf", 0644);
    assert_int_equal(chown("policy.conf", 12345, 12345), 0);
    assert_refused(find(NULL), "./policy.conf",
                   "belongs neither to this user nor to root; ZC_POLICY may name it all the same");
}

static void a_file_of_root_is_used_by_all(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("policy.conf", 0644);
    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(seteuid(12345), 0);
    struct found found = find(NULL);
    assert_int_equal(seteuid(0), 0);
    assert_found(found, "./policy.conf");
}

/* Makes "policy.conf" a link to `target` that belongs to `owner`. */
static void link_to(const char *target, uid_t owner)
{
    unlink("policy.conf");
    assert_int_equal(symlink(target, "policy.conf"), 0);
    assert_int_equal(lchown("policy.conf", owner, (gid_t)-1), 0);
}

static void a_link_of_the_user_s_or_root_s_is_followed(void **state)
{
    (void)state;
    write_file("named.conf", 0644);
    link_to("named.conf", geteuid());
    assert_found(find(NULL), "./policy.conf");
    assert_int_equal(unlink("named.conf"), 0);
    assert_int_equal(symlink("/etc/passwd", "named.conf"), 0);
    struct found found = find(NULL);
    assert_int_equal(found.result, ZC_POLICY_FOUND);
    close(found.fd);
    assert_int_equal(unlink("named.conf"), 0);
    found = find(NULL);
    assert_int_equal(found.result,
                     access(ZC_POLICY_SYSTEM_PATH, F_OK) == 0 ? found.result : ZC_POLICY_NONE);
}

/* The target's owner is trusted, but who made the link is not. */
static void a_link_of_another_user_is_refused(void **state)
{
    static const char why[] =
        "a symbolic link of another user leads there; ZC_POLICY may name it all the same";

    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("named.conf", 0644);
    link_to("named.conf", 12345);
    assert_refused(find(NULL), "./policy.conf", why);
    assert_found(find("policy.conf"), "policy.conf");
    link_to("nowhere", 12345);
    assert_refused(find(NULL), "./policy.conf", why);
    /* Behind a link that is root's own. */
    assert_int_equal(unlink("named.conf"), 0);
    assert_int_equal(symlink("/etc/passwd", "named.conf"), 0);
    assert_int_equal(lchown("named.conf", 12345, (gid_t)-1), 0);
    link_to("named.conf", 0);
    assert_refused(find(NULL), "./policy.conf", why);
}

static void a_file_without_read_permission_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    write_file("policy.conf", 0600);
    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(seteuid(12345), 0);
    struct found usual = find(NULL), named = find("policy.conf");
    assert_int_equal(seteuid(0), 0);
    assert_refused(usual, "./policy.conf", "permission denied");
    assert_refused(named, "policy.conf", "permission denied");
}

static void only_regular_files_are_used_and_a_fifo_does_not_block(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("policy.conf", 0600), 0);
    assert_refused(find(NULL), "./policy.conf", "not a regular file");
    assert_refused(find("policy.conf"), "policy.conf", "not a regular file");
    assert_int_equal(unlink("policy.conf"), 0);
    assert_int_equal(mkdir("policy.conf", 0700), 0);
    assert_refused(find(NULL), "./policy.conf", "not a regular file");
    assert_refused(find("/dev/null"), "/dev/null", "not a regular file");
}

static void a_link_in_a_circle_is_refused(void **state)
{
    (void)state;
    assert_int_equal(symlink("policy.conf", "policy.conf"), 0);
    assert_refused(find(NULL), "./policy.conf", "too many symbolic links");
}

static void a_file_past_the_limit_is_refused(void **state)
{
    (void)state;
    write_file("policy.conf", 0600);
    assert_int_equal(truncate("policy.conf", (off_t)ZC_POLICY_MAX_BYTES + 1), 0);
    assert_refused(find(NULL), "./policy.conf", "larger than 1 MiB");
    assert_int_equal(truncate("policy.conf", (off_t)ZC_POLICY_MAX_BYTES), 0);
    struct found found = find(NULL);
    assert_int_equal(found.result, ZC_POLICY_FOUND);
    close(found.fd);
}

static void texts_are_cut_to_the_caller_s_room(void **state)
{
    (void)state;
    char path[6], why[6];
    int fd = -1;

    assert_int_equal(zc_policy_open("/nowhere/at-all", &fd, path, sizeof path, why, sizeof why),
                     ZC_POLICY_REFUSED);
    assert_string_equal(path, "/nowh");
    assert_string_equal(why, "there");
    assert_int_equal(zc_policy_open("/nowhere/at-all", &fd, NULL, 0, NULL, 0), ZC_POLICY_REFUSED);
}

static void a_profile_must_be_the_user_s_own_and_may_be_missing(void **state)
{
    (void)state;
    char why[64] = "";
    int fd = -1;

    assert_int_equal(zc_policy_open_own("none.conf", &fd, why, sizeof why), ZC_POLICY_NONE);
    assert_string_equal(why, "");
    write_file("profile.conf", 0620);
    assert_int_equal(zc_policy_open_own("profile.conf", &fd, why, sizeof why), ZC_POLICY_REFUSED);
    assert_string_equal(why, "others may write to it; take that right away (chmod go-w)");
    assert_int_equal(fd, -1);
    write_file("profile.conf", 0600);
    assert_int_equal(zc_policy_open_own("profile.conf", &fd, why, sizeof why), ZC_POLICY_FOUND);
    assert_string_equal(why, "");
    close(fd);
}

static void a_program_without_standard_input_has_its_policy(void **state)
{
    int input = dup(STDIN_FILENO);

    (void)state;
    write_file("policy.conf", 0600);
    close(STDIN_FILENO);
    assert_found(find(NULL), "./policy.conf");
    close(STDIN_FILENO);
    dup2(input, STDIN_FILENO);
    close(input);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter_folder, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_named_file_comes_before_the_folder_s),
        IN_FOLDER(a_named_file_that_is_missing_is_not_replaced),
        IN_FOLDER(off_means_no_policy),
        IN_FOLDER(no_file_is_no_policy),
        IN_FOLDER(a_file_that_others_may_write_is_refused),
        IN_FOLDER(a_file_of_another_user_is_refused),
        IN_FOLDER(a_file_of_root_is_used_by_all),
        IN_FOLDER(a_link_of_the_user_s_or_root_s_is_followed),
        IN_FOLDER(a_link_of_another_user_is_refused),
        IN_FOLDER(a_file_without_read_permission_is_refused),
        IN_FOLDER(only_regular_files_are_used_and_a_fifo_does_not_block),
        IN_FOLDER(a_link_in_a_circle_is_refused),
        IN_FOLDER(a_file_past_the_limit_is_refused),
        IN_FOLDER(a_profile_must_be_the_user_s_own_and_may_be_missing),
        IN_FOLDER(a_program_without_standard_input_has_its_policy),
        IN_FOLDER(texts_are_cut_to_the_caller_s_room),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
