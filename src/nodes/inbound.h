// The door for other nodes: takes the commands they pass on and answers when all of them are done.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "net/http.h"
#include "nodes/wire.h"

namespace interlock::nodes {

inline constexpr const char* inbound_path = "/internal/commands";
inline constexpr const char* inbound_type = "application/x-interlock-commands";

class Inbound {
 public:
    struct Options {
        std::string secret;  // What a node shows to be let in.
        std::function<Instant()> now;
        std::function<void(std::vector<engine::Submission>)> submit;
        std::function<bool(core::OrgId)> writes;                    // Whether this node writes the org.
        std::function<std::optional<Head>(core::OrgId)> head = {};  // How far this node has seen the org's history go.
    };
    explicit Inbound(Options options) : options_(std::move(options)) {}

    // Empty when the request is for somebody else.
    std::optional<net::Task<net::Response>> answer(const net::Request& request) const;
    // Whether it shows the nodes' secret.
    bool is_of_a_node(const net::Request& request) const;

 private:
    net::Task<net::Response> carry_out(std::string body) const;

    Options options_;
};

}  // namespace interlock::nodes
