// The data directory: who may read it, the secrets in it, and the note that says where the server listens.
//
//   (1) The directory is the owner's alone (0700), and so are the files written here (0600). One that belongs to
//       another user, or that others could write to, is refused; so is a secret that others could read.
//   (2) A file is there whole or not at all: it is written beside its place and moved there.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "store/seals.h"

namespace interlock::server {

// Makes it, and its parents, if need be. One that others can read is closed to them. The error is a sentence.
Result<void, std::string> make_data_dir(const std::string& path);

// The text of the admin key that versions before 0.2 made; nothing when there is no such file.
std::optional<std::string> read_admin_key(const std::string& data_dir);

// The id of the node that runs on this directory: the one that was written there, or else `fresh`, which is.
Result<Id, std::string> node_id(const std::string& data_dir, Id fresh);

// From which the keys of runs and the logins of browsers are made: what was written there, or else `fresh`, which is.
Result<std::string, std::string> run_secret(const std::string& data_dir, const std::string& fresh);
// What secrets are encrypted with, in the same way.
Result<std::string, std::string> secrets_key(const std::string& data_dir, const std::string& fresh);
std::string secrets_key_path(const std::string& data_dir);

// What commits are sealed with, in the same way. A line each: the first is used, all are believed.
Result<std::vector<store::SealKey>, std::string> seal_keys(const std::string& data_dir, const std::string& fresh);
std::string seal_key_path(const std::string& data_dir);
// Adds lines that say so of keys, by their ids.
Result<void, std::string> add_lost_seal_keys(const std::string& data_dir, const std::vector<std::string>& ids);
// The same for programs that only read: none where there is no file.
std::vector<store::SealKey> read_seal_keys(const std::string& data_dir);

// The price list that stands in for the one the binary carries; nothing when there is none.
std::optional<std::string> read_catalog(const std::string& data_dir);
Result<void, std::string> write_catalog(const std::string& data_dir, const std::string& text);

// What `interlock` on the same machine finds the server by. `started` tells a process from a later one of the same id.
struct ServerNote {
    std::string url;
    pid_t pid = 0;
    std::string started;
    std::string socket = {};  // Where programs of this machine reach it.
};
Result<void, std::string> write_server_note(const std::string& data_dir, const ServerNote& note);
std::optional<ServerNote> read_server_note(const std::string& data_dir);
// Leaves a note that names another process.
void remove_server_note(const std::string& data_dir, pid_t pid);

// When the process began, as the system counts; empty when there is none.
std::string process_start(pid_t pid);

}  // namespace interlock::server
