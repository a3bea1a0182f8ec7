/* SPDX-License-Identifier: MIT */
/*
 * Every fault that a policy can have, where it is reported and in which words; and that only the
 * faulty rule is lost. One row of the table is one test.
 */
#include "policy_test.h"

struct row {
    const char *name;
    const char *text;
    unsigned line, column; /* of the first fault */
    const char *message;   /* of the first fault; a warning begins with "warning: " */
    int errors;
    size_t rules; /* that stay */
};

#define GOOD "[rule good]\nplace = vmm\n"
#define RULE "[rule r]\nplace = mapped\n"
#define HOST "[rule r]\nplace = pinned\napi = malloc\n"

static const struct row rows[] = {
    {"an unknown key names the nearest one", GOOD "[rule r]\nplcae = mapped\n", 4, 1,
     "unknown key 'plcae' (nearest: place)", 1, 1},
    {"the first of all keys is the nearest, too", GOOD "[rule r]\nplace = mapped\nappi = malloc\n",
     5, 1, "unknown key 'appi' (nearest: api)", 1, 1},
    {"a key of another section is not the nearest", "[defaults]\nplcae = mapped\n" GOOD, 2, 1,
     "unknown key 'plcae' ('zc check --keys' prints all)", 1, 1},
    {"an unknown key that is near to nothing tells where all are", GOOD "[rule r]\nxyzzy = 1\n", 4,
     1, "unknown key 'xyzzy' ('zc check --keys' prints all)", 1, 1},
    {"an unknown section names the nearest one", "[rul a]\nplace = mapped\n" GOOD, 1, 2,
     "unknown section 'rul' (nearest: rule)", 1, 1},
    {"the lines of an unknown section are not looked at", "[foo]\nbar\nbaz = 1\n" GOOD, 1, 2,
     "unknown section 'foo' (known: defaults, rule)", 1, 1},
    {"a section without closing bracket is a fault", "[rule a\nplace = mapped\n" GOOD, 1, 1,
     "section '[rule a' does not end with ']'", 1, 1},
    {"an empty section name is a fault", "[]\n" GOOD, 1, 2,
     "unknown section '' (known: defaults, rule)", 1, 1},
    {"a lone bracket is a fault", "[\n" GOOD, 1, 1, "section '[' does not end with ']'", 1, 1},
    {"a rule without name is a fault", "[rule]\nplace = mapped\n" GOOD, 1, 1,
     "a rule needs a name, as in [rule tables]", 1, 1},
    {"a rule name with other letters is a fault", "[rule a/b]\nplace = mapped\n" GOOD, 1, 7,
     "rule name 'a/b' may hold letters, digits, '_', '-' and '.' only", 1, 1},
    {"[defaults] has no name", "[defaults x]\n" GOOD, 1, 11,
     "section 'defaults' has no name, found 'x'", 1, 1},
    {"a key before the first section is a fault", "place = mapped\n" GOOD, 1, 1,
     "key 'place' stands before the first section", 1, 1},
    {"a line without '=' is a fault", GOOD "[rule r]\nplace mapped\n", 4, 1,
     "expected 'key = value', found 'place mapped'", 1, 1},
    {"a value without key is a fault", GOOD "[rule r]\n = mapped\n", 4, 2,
     "expected 'key = value', found '= mapped'", 1, 1},
    {"a key without value is a fault", GOOD RULE "size =   # none\n", 5, 1,
     "key 'size' has no value (4K, 1M.., ..64K, 64K..2G)", 1, 1},
    {"a key that is given twice is a fault", GOOD RULE "\nplace = vmm\n", 6, 1,
     "key 'place' is already given in line 4", 1, 1},
    {"a default that is given twice is a fault",
     "[defaults]\nlog = a\n" GOOD "[defaults]\nlog = b\n", 6, 1,
     "key 'log' is already given in line 2", 1, 1},
    {"a key of [defaults] in a rule is a fault", GOOD "[rule r]\nlog = x\n", 4, 1,
     "key 'log' belongs into [defaults]", 1, 1},
    {"a key of rules in [defaults] is a fault", "[defaults]\nsize = 1M\n" GOOD, 2, 1,
     "key 'size' belongs into a rule", 1, 1},
    {"a rule without place is a fault", GOOD "\n[rule r]\nsize = 1M\n", 4, 1,
     "rule 'r' has no place", 1, 1},
    {"a place that is named twice is a fault", GOOD "[rule r]\nplace = vmm, device, vmm\n", 4, 22,
     "place: 'vmm' is named twice", 1, 1},
    {"an unknown place names the nearest one", GOOD "[rule r]\nplace = vmm, managd\n", 4, 14,
     "unknown value 'managd' for 'place' (nearest: managed)", 1, 1},
    {"an unknown place that is near to nothing lists all", GOOD "[rule r]\nplace = host\n", 4, 9,
     "unknown value 'host' for 'place' (known: device, mapped, managed, vmm, shared, pageable, "
     "pinned)",
     1, 1},
    {"a place of which half is another word's lists all", GOOD "[rule r]\nplace = vmab\n", 4, 9,
     "unknown value 'vmab' for 'place' (known: device, mapped, managed, vmm, shared, pageable, "
     "pinned)",
     1, 1},
    {"places without a comma between are a fault that says so",
     GOOD "[rule r]\nplace = vmm device\n", 4, 9,
     "place: 'vmm device' is not one word: lists have commas, comments begin with '#'", 1, 1},
    {"words without a comma between are a fault that says so",
     GOOD "[rule r]\nplace = device; mapped\n", 4, 9,
     "place: 'device; mapped' is not one word: lists have commas, comments begin with '#'", 1, 1},
    {"an empty item in a list of places is a fault", GOOD "[rule r]\nplace = vmm,\n", 4, 13,
     "place: empty item in the list", 1, 1},
    {"a lone comma is an empty item", GOOD "[rule r]\nplace = ,\n", 4, 9,
     "place: empty item in the list", 1, 1},
    {"a host place is not possible for a device request",
     GOOD "[rule r]\napi = cudaMalloc\nplace = pinned\n", 5, 9,
     "no place of the rule is possible for 'cudaMalloc' (possible: device, mapped, managed, vmm, "
     "shared)",
     1, 1},
    {"a device place is not possible for a host request",
     GOOD "[rule r]\napi = malloc\nplace = pinned, mapped\n", 5, 9,
     "place 'mapped' is not possible for the requests of the rule: it is for device requests such "
     "as cudaMalloc",
     1, 1},
    {"a host place behind a device place needs an api", GOOD "[rule r]\nplace = mapped, pinned\n",
     4, 9,
     "place 'pinned' is not possible for the requests of the rule: it is for host requests "
     "such as malloc",
     1, 1},
    {"arrays stay in device memory", GOOD "[rule r]\napi = cudaMallocArray\nplace = mapped\n", 5, 9,
     "no place of the rule is possible for 'cudaMallocArray' (possible: device)", 1, 1},
    {"a glob whose requests fit no place is a fault",
     GOOD "[rule r]\napi = cudaMalloc?rray\nplace = mapped\n", 5, 9,
     "place 'mapped' is not possible for the requests of the rule: it is for device requests such "
     "as cudaMalloc",
     1, 1},
    {"an unknown request names the nearest one", GOOD RULE "api = cudaMalloc, cudaMaloc\n", 5, 19,
     "unknown api 'cudaMaloc' (nearest: cudaMalloc)", 1, 1},
    {"a call that requests no memory is no request", GOOD RULE "api = cudaFree\n", 5, 7,
     "unknown api 'cudaFree' (no call that requests memory, as cudaMalloc and malloc are)", 1, 1},
    {"requests without commas between them are no list",
     GOOD RULE "api = cudaMalloc cudaMallocAsync\n", 5, 7,
     "unknown api 'cudaMalloc cudaMallocAsync' (a list has commas)", 1, 1},
    {"a request glob that matches nothing is a fault", GOOD RULE "api = hip*\n", 5, 7,
     "api: 'hip*' matches the name of no request", 1, 1},
    {"so is one that begins with its wildcard", GOOD RULE "api = *hip\n", 5, 7,
     "api: '*hip' matches the name of no request", 1, 1},
    {"a broken request glob is a fault", GOOD RULE "api = cuda[M\n", 5, 7,
     "api: '[' without ']' in 'cuda[M'", 1, 1},
    {"an empty request is a fault", GOOD RULE "api = , cudaMalloc\n", 5, 7,
     "api: empty item in the list", 1, 1},
    {"a size of words is a fault", GOOD RULE "size = big\n", 5, 8,
     "size: 'big' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"a fractional size is a fault", GOOD RULE "size = 1.5G\n", 5, 8,
     "size: '1.5G' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"a negative size is a fault", GOOD RULE "size = -1\n", 5, 8,
     "size: '-1' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"an unknown unit is a fault", GOOD RULE "size = 64m\n", 5, 8,
     "size: '64m' is not a size: the units are K, M, G and T", 1, 1},
    {"a size past 64 bits is a fault", GOOD RULE "size = 18446744073709551616\n", 5, 8,
     "size: '18446744073709551616' is too large", 1, 1},
    {"a size that its unit takes past 64 bits is a fault", GOOD RULE "size = 16777216T\n", 5, 8,
     "size: '16777216T' is too large", 1, 1},
    {"a size of 0 is a fault", GOOD RULE "size = 0\n", 5, 8,
     "size: '0' holds nothing: the least is 1", 1, 1},
    {"a range up to 0 is a fault", GOOD RULE "size = ..0\n", 5, 8,
     "size: '..0' holds nothing: the least is 1", 1, 1},
    {"a reversed range is a fault", GOOD RULE "size = 1K, 2G..1M\n", 5, 12,
     "size: range '2G..1M' is reversed", 1, 1},
    {"a range without ends is a fault", GOOD RULE "size = ..\n", 5, 8,
     "size: range '..' has no ends", 1, 1},
    {"the low end of a range is judged", GOOD RULE "size = x..1M\n", 5, 8,
     "size: 'x' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"the high end of a range is judged", GOOD RULE "size = 1..y\n", 5, 11,
     "size: 'y' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"an empty size in a list is a fault", GOOD RULE "size = 1M,,2M\n", 5, 11,
     "size: empty item in the list", 1, 1},
    {"nth counts from 1", GOOD RULE "nth = 0\n", 5, 7, "nth: '0' holds nothing: the least is 1", 1,
     1},
    {"nth is a number", GOOD RULE "nth = first\n", 5, 7, "nth: 'first' is not a number", 1, 1},
    {"a range of odd has no ends", GOOD RULE "nth = odd..9\n", 5, 7, "nth: 'odd' is not a number",
     1, 1},
    {"a rank is not odd", GOOD RULE "rank = odd\n", 5, 8, "rank: 'odd' is not a number", 1, 1},
    {"a device past any ordinal is a fault", GOOD RULE "device = 4294967296\n", 5, 10,
     "device: '4294967296' is too large", 1, 1},
    {"a range of devices past any ordinal is a fault", GOOD RULE "device = 0..4294967296\n", 5, 10,
     "device: '0..4294967296' is too large", 1, 1},
    {"a site is hexadecimal", GOOD RULE "site = load_table\n", 5, 8,
     "site: 'load_table' is not a site id: up to 8 hexadecimal digits", 1, 1},
    {"a site has 8 digits at most", GOOD RULE "site = 123456789\n", 5, 8,
     "site: '123456789' is not a site id: up to 8 hexadecimal digits", 1, 1},
    {"a broken module glob is a fault", GOOD RULE "module = lib*, lib[a\n", 5, 16,
     "module: '[' without ']' in 'lib[a'", 1, 1},
    {"a reversed class in a glob is a fault", GOOD RULE "exe = x[!z-a]\n", 5, 7,
     "exe: reversed range between '[' and ']' in 'x[!z-a]'", 1, 1},
    {"an empty pattern is a fault", GOOD RULE "thread = a,\n", 5, 12,
     "thread: empty item in the list", 1, 1},
    {"a rule for streams is gone, and takes nothing", GOOD RULE "stream = created\n", 5, 1,
     "key 'stream' is gone: requests in stream order stay in their pool; leave the rule out, or "
     "the "
     "key where it is 'none'",
     1, 1},
    {"an unknown word that is near to nothing lists all", "[defaults]\nlog_level = full\n" GOOD, 2,
     13, "unknown value 'full' for 'log_level' (known: summary, allocs, events)", 1, 1},
    {"an unknown word of a key names the nearest one", GOOD RULE "access = raed\n", 5, 10,
     "unknown value 'raed' for 'access' (nearest: read)", 1, 1},
    {"a chunk of 0 is a fault", GOOD "[rule r]\nplace = vmm\nchunk = 0\n", 5, 9,
     "chunk: must be more than 0", 1, 1},
    {"a chunk is a size", GOOD "[rule r]\nplace = vmm\nchunk = 2X\n", 5, 9,
     "chunk: '2X' is not a size: the units are K, M, G and T", 1, 1},
    {"a budget of 0 is a fault", GOOD RULE "budget = 0%\n", 5, 10, "budget: must be more than 0", 1,
     1},
    {"a budget is a size or a percentage", GOOD RULE "budget = much\n", 5, 10,
     "budget: 'much' is not a size: digits, then K, M, G, T or nothing", 1, 1},
    {"more than 100 % is a fault", "[defaults]\nmax_pinned = 101%\n" GOOD, 2, 14,
     "max_pinned: '101%' is more than 100%", 1, 1},
    {"a percent sign alone is a fault", "[defaults]\nmax_pinned = %\n" GOOD, 2, 14,
     "max_pinned: '%' is not a percentage: digits, then %", 1, 1},
    {"an unknown letter in the log pattern is a fault", "[defaults]\nlog = zc.%q.jsonl\n" GOOD, 2,
     10, "log: unknown pattern '%q' (known: %e %p %h %r %t %%)", 1, 1},
    {"a percent sign at the end of the log pattern is a fault", "[defaults]\nlog = zc%\n" GOOD, 2,
     9, "log: unknown pattern '%' (known: %e %p %h %r %t %%)", 1, 1},
    {"a control byte is a fault", GOOD RULE "size = 1M\x01\n", 5, 10,
     "control byte '\\x01'; a policy is text in ASCII or UTF-8", 1, 1},
    {"a lone carriage return is a fault", GOOD RULE "size = 1M\rx\n", 5, 10,
     "control byte '\\x0d'; a policy is text in ASCII or UTF-8", 1, 1},
    {"a message shows foreign bytes escaped", GOOD "[rule r]\npl\xc3\xa4z = 1\n", 4, 1,
     "unknown key 'pl\\xc3\\xa4z' ('zc check --keys' prints all)", 1, 1},
    {"a message cuts a long word",
     GOOD "[rule r]\n0123456789012345678901234567890123456789012345678901234567890 = 1\n", 4, 1,
     "unknown key '012345678901234567890123456789012345678901234567...' ('zc check --keys' prints "
     "all)",
     1, 1},
    {"a key that is gone is a warning that names what to use", "[defaults]\num_counters = yes\n", 2,
     1,
     "warning: key 'um_counters' is not needed any more and has no effect: migrations of managed "
     "memory are counted by 'nsys profile --cuda-um-cpu-page-faults=true "
     "--cuda-um-gpu-page-faults=true'",
     0, 0},
    {"a key that nothing needs any more is a warning, whatever its value", RULE "pair =\n", 3, 1,
     "warning: key 'pair' is not needed any more and has no effect: a device block becomes one "
     "with the host block that is copied into it",
     0, 1},
    {"so is one that says how to meet what no longer happens", RULE "conflict = reveal\n", 3, 1,
     "warning: key 'conflict' is not needed any more and has no effect: host block and device "
     "block have their own content wherever they differ",
     0, 1},
    {"a rule's key that is for all memory is a warning",
     "[rule r]\nplace = pageable\npageable_copy = driver\n", 3, 1,
     "warning: key 'pageable_copy' is not needed any more and has no effect: pageable_copy in "
     "[defaults] is for all pageable memory",
     0, 1},
    {"a word of a list that there was is a warning",
     "[rule r]\nplace = managed\nprefetch = alloc, launch\n", 3, 12,
     "warning: value 'alloc, launch' is not needed any more and has no effect: managed pages are "
     "sent when their use asks for it",
     0, 1},
    {"a key that made frees return early", "[rule r]\nplace = vmm\nfree = defer\n", 3, 1,
     "warning: key 'free' is not needed any more and has no effect: a free waits for the work that "
     "runs, as the driver's does",
     0, 1},
    {"a request that no place gets is a warning", "[rule r]\napi = cuMemCreate\nplace = mapped\n",
     1, 1,
     "warning: rule 'r': requests by cuMemCreate are not placed by this version; they stay where "
     "the program put them",
     0, 1},
    {"host requests that are all too small are a warning",
     "[rule r]\napi = malloc\nsize = ..32K\nplace = pinned\n", 3, 8,
     "warning: size: host requests below 64 KiB are never converted", 0, 1},
    {"a budget of libc's requests is a warning",
     "[rule r]\napi = malloc\nplace = pinned\nbudget = 1G\n", 4, 10,
     "warning: budget: does not count requests of libc", 0, 1},
    {"a word for results is a warning", "[rule r]\napi = malloc\nplace = shared\naccess = write\n",
     4, 10,
     "warning: value 'write' is not needed any more and has no effect: results are device memory, "
     "from which copies run at the link's speed",
     0, 1},
    {"a level that there was is a warning", "[defaults]\nlog_level = deep\n", 2, 13,
     "warning: value 'deep' is not needed any more and has no effect: no level looks at what "
     "copies carry; 'events' tells of each copy",
     0, 0},
    {"a key of another place is a warning", RULE "prefetch = none\n", 3, 12,
     "warning: prefetch: has no effect, it goes with place managed", 0, 1},
    {"a key that there was is a warning", "[rule r]\nplace = managed\nadvise = read_mostly\n", 3, 1,
     "warning: key 'advise' is not needed any more and has no effect: managed pages go where "
     "their use sends them",
     0, 1},
    {"a word about kernels is a warning where nothing is shared", RULE "access = read\n", 3, 10,
     "warning: access: has no effect, it goes with place shared", 0, 1},
    {"a key of several other places lists them", "[rule r]\nplace = vmm\nasync = overlap\n", 3, 9,
     "warning: async: has no effect, it goes with place shared, pinned", 0, 1},
    {"a node that was named is a warning", "[rule r]\nplace = mapped\nnuma = local\n", 3, 1,
     "warning: key 'numa' is not needed any more and has no effect: pages come from the node next "
     "to the device, or from those that 'numactl' names",
     0, 1},
    {"an eager commit of a growing block is a warning",
     "[rule r]\nplace = vmm\ngrow = yes\ncommit = eager\n", 4, 10,
     "warning: commit: 'eager' has no effect beside 'grow = yes', which implies 'lazy'", 0, 1},
    {"a growing block that moves is an error", "[rule r]\nplace = vmm\ngrow = yes\nspill = move\n",
     4, 9,
     "spill: 'move' and 'fetch' are not possible beside 'grow = yes': an array that grows hands on "
     "the device's memory",
     1, 0},
    {"a budget below all sizes of its rule is a warning", RULE "size = 2M, 64M..\nbudget = 50\n", 4,
     10, "warning: budget: no request of the rule is so small: none goes to its first place", 0, 1},
    {"a device for requests of libc is a warning", HOST "device = 0\n", 4, 10,
     "warning: device: the rule never matches: requests of libc have no device", 0, 1},
    {"a module with folders is a warning", RULE "module = /usr/lib/libfoo.so\n", 3, 10,
     "warning: module: the rule never matches: file names are compared without folders", 0, 1},
    {"a program with folders is a warning", RULE "exe = bin/*\n", 3, 7,
     "warning: exe: the rule never matches: file names are compared without folders", 0, 1},
    {"a thread name of 16 bytes is a warning", RULE "thread = 0123456789abcdef\n", 3, 10,
     "warning: thread: the rule never matches: thread names have at most 15 bytes", 0, 1},
};

static void reports_the_fault(void **state)
{
    const struct row *row = *state;
    struct parsed *parsed = parse_text(row->text);
    const struct fault *fault = &parsed->fault[0];
    bool warning = strncmp(row->message, "warning: ", 9) == 0;

    assert_int_equal(parsed->faults, 1);
    assert_string_equal(fault->message, row->message + (warning ? 9 : 0));
    assert_int_equal(fault->severity, warning ? ZC_SEVERITY_WARNING : ZC_SEVERITY_ERROR);
    assert_int_equal(fault->line, row->line);
    assert_int_equal(fault->column, row->column);
    assert_int_equal(parsed->errors, row->errors);
    assert_int_equal(parsed->policy.rule_count, row->rules);
    parsed_free(parsed);
}

int main(void)
{
    enum { count = sizeof rows / sizeof rows[0] };
    static struct CMUnitTest tests[count];

    for (size_t i = 0; i < count; i++) {
        tests[i].name = rows[i].name;
        tests[i].test_func = reports_the_fault;
        tests[i].initial_state = (void *)(uintptr_t)&rows[i];
    }
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return _cmocka_run_group_tests("policy_faults", tests, count, NULL, NULL);
}
