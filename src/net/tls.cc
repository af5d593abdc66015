#include "net/tls.h"

#include <string_view>

namespace interlock::net {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr std::string_view http_1_1 = "\x08http/1.1";

// ALPN. A client that offers only something else gets HTTP/1.1 all the same, as one that offers nothing.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size, const unsigned char* offered,
                    unsigned int offered_size, void*) {
    const auto* ours = reinterpret_cast<const unsigned char*>(http_1_1.data());
    unsigned char* found = nullptr;
    const int result = SSL_select_next_proto(&found, chosen_size, ours, static_cast<unsigned int>(http_1_1.size()),
                                             offered, offered_size);
    *chosen = found;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

std::unique_ptr<ssl::context> make_context(ssl::context::method method) {
    auto context = std::make_unique<ssl::context>(method);
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    // An idle connection keeps no buffers.
    SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    return context;
}

}  // namespace

Result<std::unique_ptr<ssl::context>, std::string> make_server_tls(const TlsFiles& files) {
    auto context = make_context(ssl::context::tls_server);
    error_code error;
    context->use_certificate_chain_file(files.cert_file, error);
    if (error) return fail("the certificate " + files.cert_file + " cannot be used: " + error.message());
    context->use_private_key_file(files.key_file, ssl::context::pem, error);
    if (error) return fail("the key " + files.key_file + " cannot be used: " + error.message());
    if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
        return fail("the key " + files.key_file + " is not that of the certificate " + files.cert_file);
    }
    // Without an id of its own, OpenSSL refuses to resume a session as soon as clients show certificates.
    constexpr std::string_view session_id = "http";
    SSL_CTX_set_session_id_context(context->native_handle(), reinterpret_cast<const unsigned char*>(session_id.data()),
                                   static_cast<unsigned int>(session_id.size()));
    SSL_CTX_set_alpn_select_cb(context->native_handle(), choose_protocol, nullptr);
    return context;
}

Result<std::unique_ptr<ssl::context>, std::string> make_client_tls(const std::string& ca_file) {
    auto context = make_context(ssl::context::tls_client);
    context->set_verify_mode(ssl::verify_peer);
    error_code error;
    context->set_default_verify_paths(error);
    if (!ca_file.empty()) context->load_verify_file(ca_file, error);
    if (error) return fail("the authorities in " + ca_file + " cannot be used: " + error.message());
    return context;
}

}  // namespace interlock::net
