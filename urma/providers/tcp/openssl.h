// SPDX-License-Identifier: MIT
//
// The functions of OpenSSL that this provider calls, found with dlsym once a secret or TLS is
// configured: other programs do not load the library.
#ifndef URMA_PROVIDERS_TCP_OPENSSL_H_
#define URMA_PROVIDERS_TCP_OPENSSL_H_

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <string>

namespace urma::tcp {

#define URMA_TCP_OPENSSL_FUNCTIONS(X)   \
  X(CRYPTO_memcmp)                      \
  X(ERR_clear_error)                    \
  X(ERR_error_string_n)                 \
  X(ERR_get_error)                      \
  X(EVP_sha256)                         \
  X(HMAC)                               \
  X(OPENSSL_init_crypto)                \
  X(SSL_CTX_check_private_key)          \
  X(SSL_CTX_ctrl)                       \
  X(SSL_CTX_free)                       \
  X(SSL_CTX_get_ex_data)                \
  X(SSL_CTX_load_verify_file)           \
  X(SSL_CTX_new)                        \
  X(SSL_CTX_set_ciphersuites)           \
  X(SSL_CTX_set_ex_data)                \
  X(SSL_CTX_set_num_tickets)            \
  X(SSL_CTX_set_options)                \
  X(SSL_CTX_set_psk_client_callback)    \
  X(SSL_CTX_set_psk_server_callback)    \
  X(SSL_CTX_set_verify)                 \
  X(SSL_CTX_use_PrivateKey_file)        \
  X(SSL_CTX_use_certificate_chain_file) \
  X(SSL_do_handshake)                   \
  X(SSL_export_keying_material)         \
  X(SSL_free)                           \
  X(SSL_get_SSL_CTX)                    \
  X(SSL_get_error)                      \
  X(SSL_new)                            \
  X(SSL_pending)                        \
  X(SSL_read_ex)                        \
  X(SSL_session_reused)                 \
  X(SSL_set_accept_state)               \
  X(SSL_set_connect_state)              \
  X(SSL_set_fd)                         \
  X(SSL_set_session_id_context)         \
  X(SSL_write_ex)                       \
  X(TLS_method)

struct OpenSsl {
#define URMA_TCP_MEMBER(name) decltype(&::name) name = nullptr;
  URMA_TCP_OPENSSL_FUNCTIONS(URMA_TCP_MEMBER)
#undef URMA_TCP_MEMBER

  // The error of this thread, which is cleared; "" if there is none.
  std::string error() const;
};

// Opened once, and kept. Throws Error if it is missing.
const OpenSsl& openssl();

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_OPENSSL_H_
