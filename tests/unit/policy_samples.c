/* SPDX-License-Identifier: MIT */
/*
 * The sample policy.conf and the presets: no fault in any, and the sample shows every key.
 */
#include <dirent.h>

#include "policy_test.h"

/* All of a file, terminated; the caller frees it. */
static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 65536);

    assert_non_null(text);
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    assert_true(fread(text, 1, 65535, file) < 65535);
    fclose(file);
    return text;
}

static void every_preset_is_without_fault(void **state)
{
    (void)state;
    DIR *dir = opendir("policy/presets");
    struct dirent *entry;
    unsigned presets = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char path[512];

        if (strstr(entry->d_name, ".conf") == NULL)
            continue;
        snprintf(path, sizeof path, "policy/presets/%s", entry->d_name);
        char *text = read_whole(path);
        struct parsed *parsed = parse_text(text);
        if (parsed->faults > 0)
            fail_msg("%s:%u: %s", path, parsed->fault[0].line, parsed->fault[0].message);
        assert_true(parsed->policy.rule_count > 0 || parsed->policy.given != 0);
        parsed_free(parsed);
        free(text);
        presets++;
    }
    closedir(dir);
    assert_true(presets >= 4);
}

static void the_sample_changes_nothing(void **state)
{
    (void)state;
    char *text = read_whole("policy/policy.conf");
    struct parsed *parsed = parse_good(text);

    assert_int_equal(parsed->policy.rule_count, 0);
    assert_true(parsed->policy.given == 0);
    parsed_free(parsed);
    free(text);
}

/* Takes the mark off the lines that are a section or a key; prose stays a comment. */
static void uncomment(char *text)
{
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        size_t word = strspn(line + 2, "abcdefghijklmnopqrstuvwxyz_");

        if (line[0] == '#' && (line[2] == '[' || (word > 0 && !strncmp(line + 2 + word, " = ", 3))))
            line[0] = ' ';
        line = end != NULL ? end + 1 : NULL;
    }
}

static void the_sample_shows_every_key_with_a_value_that_is_accepted(void **state)
{
    (void)state;
    char *text = read_whole("policy/policy.conf");
    const struct zc_key *keys = zc_policy_keys();

    uncomment(text);
    struct parsed *parsed = parse_text(text);
    if (parsed->errors > 0)
        fail_msg("line %u: %s", parsed->fault[0].line, parsed->fault[0].message);
    assert_int_equal(parsed->policy.rule_count, 1);
    for (unsigned id = 0; id < ZC_KEY_COUNT; id++) {
        uint64_t given = keys[id].scope == ZC_SCOPE_DEFAULTS ? parsed->policy.given
                                                             : parsed->policy.rules[0].given;

        if ((given & ZC_KEY_BIT(id)) == 0)
            fail_msg("the sample does not show '%s'", keys[id].name);
    }
    parsed_free(parsed);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_is_without_fault),
        cmocka_unit_test(the_sample_changes_nothing),
        cmocka_unit_test(the_sample_shows_every_key_with_a_value_that_is_accepted),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
