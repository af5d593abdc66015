// For tests: a certificate that signed itself, in files that are removed at the end.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "net/http_server.h"

namespace interlock::net {

class TestCertificate {
 public:
    // `names` as OpenSSL writes them: "DNS:localhost,IP:127.0.0.1".
    explicit TestCertificate(const std::string& names) {
        std::string pattern = std::filesystem::temp_directory_path() / "certificate-XXXXXX";
        directory_ = ::mkdtemp(pattern.data());
        files = {.cert_file = directory_ / "cert.pem", .key_file = directory_ / "key.pem"};

        const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
        const std::unique_ptr<X509, decltype(&X509_free)> cert(X509_new(), X509_free);
        X509_set_version(cert.get(), X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1);
        X509_gmtime_adj(X509_getm_notBefore(cert.get()), -3'600);
        X509_gmtime_adj(X509_getm_notAfter(cert.get()), 3'600);
        X509_set_pubkey(cert.get(), key.get());
        const auto* common_name = reinterpret_cast<const unsigned char*>("test");
        X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC, common_name, -1, -1, 0);
        X509_set_issuer_name(cert.get(), X509_get_subject_name(cert.get()));
        add(cert.get(), NID_subject_alt_name, names);
        add(cert.get(), NID_basic_constraints, "critical,CA:TRUE");
        X509_sign(cert.get(), key.get(), EVP_sha256());

        write(files.cert_file, [&](std::FILE* file) { PEM_write_X509(file, cert.get()); });
        write(files.key_file,
              [&](std::FILE* file) { PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    }
    ~TestCertificate() { std::filesystem::remove_all(directory_); }
    TestCertificate(const TestCertificate&) = delete;
    TestCertificate& operator=(const TestCertificate&) = delete;

    TlsFiles files;

 private:
    static void add(X509* cert, int kind, const std::string& value) {
        X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
        X509_add_ext(cert, extension, -1);
        X509_EXTENSION_free(extension);
    }
    template <class Write>
    static void write(const std::string& path, Write write_to) {
        std::FILE* file = std::fopen(path.c_str(), "w");
        write_to(file);
        std::fclose(file);
    }

    std::filesystem::path directory_;
};

}  // namespace interlock::net
