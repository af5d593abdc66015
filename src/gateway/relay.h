// From an upstream's answer to the client's: whole, or as a stream.
#pragma once

#include <memory>
#include <optional>

#include "gateway/flight.h"
#include "net/http_pool.h"

namespace interlock::gateway {

// An answer, or why there is none; then nothing of it has reached the client.
struct Relayed {
    std::optional<net::Response> response = {};
    std::optional<net::ClientError> failure = {};
    bool begun = false;  // Part of it had come.
};

// A good answer. The flight is settled and recorded when its last byte is read.
net::Task<Relayed> relay(std::shared_ptr<Flight> flight, std::unique_ptr<net::HttpExchange> exchange);

// An answer that is passed on as it is: free of cost, or the provider's refusal. At most `whole_bytes_max` of it.
net::Task<Relayed> read_whole(std::shared_ptr<Flight> flight, std::unique_ptr<net::HttpExchange> exchange);

// What our clients are told about their call, in headers.
void add_own_headers(const Flight& flight, net::Response& response);

constexpr std::size_t whole_bytes_max = 64u << 20;

}  // namespace interlock::gateway
