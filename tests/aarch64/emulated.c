/* SPDX-License-Identifier: MIT */
/*
 * Stands in for a program of another processor: runs NAME.aarch64, which lies beside it, under
 * qemu's emulation of user programs.  It is linked statically, so that the preloads and library
 * folders of its environment, which are of the other processor, are passed on and not tried.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARGUMENTS_MOST 4096
#define NOT_RUN 126 /* as shells say of a program that cannot be executed */

/* Hidden from the loader of this processor, and seen by that of the other one. */
static const char *const loader_settings[] = {"LD_PRELOAD", "LD_LIBRARY_PATH"};

/* Takes a setting out of the environment; gives NAME=VALUE, or NULL where it is not set. */
static char *taken(const char *name)
{
    const char *value = getenv(name);
    char *text = NULL;

    if (value && asprintf(&text, "%s=%s", name, value) < 0)
        exit(NOT_RUN);
    unsetenv(name);
    return text;
}

int main(int argc, char **argv)
{
    char self[4096], program[sizeof(self) + sizeof(".aarch64")];
    char *command[ARGUMENTS_MOST] = {"qemu-aarch64", "-L", SYSROOT, "-0", argv[0]};
    int n = 5;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length < 0 || argc > ARGUMENTS_MOST - 16)
        return NOT_RUN;
    self[length] = '\0';
    snprintf(program, sizeof(program), "%s.aarch64", self);
    for (size_t i = 0; i < sizeof(loader_settings) / sizeof(*loader_settings); i++) {
        char *setting = taken(loader_settings[i]);
        if (setting) {
            command[n++] = "-E";
            command[n++] = setting;
        }
    }
    command[n++] = program;
    for (int i = 1; i < argc; i++)
        command[n++] = argv[i];
    command[n] = NULL;
    execvp(command[0], command);
    perror(command[0]);
    return NOT_RUN;
}
