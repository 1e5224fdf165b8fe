#ifndef CYAML_H
#define CYAML_H

#include <dirent.h>
#include <yaml.h>

/// The name in a directory entry. Swift would copy the whole array of 256 bytes, past the end of a short entry.
static inline const char *_Nonnull cyaml_entry_name(const struct dirent *_Nonnull entry) {
    return entry->d_name;
}

#endif
