# SPDX-License-Identifier: MIT
"""The faults: name, file, original text, replacement, and the tests that must find it."""

MODEL = "//test/model:model_copied_test"
MAPPED_MODEL = "//test/model:model_mapped_test"
LINES = "//test/conformance:lines_test=DeviceLines.*"
COMPLETIONS = "//test/conformance:clients_completion_test"
LIFE = "//test/conformance:clients_life_test"

FAULTS = [
    # The rules that core checks before it calls a provider.
    (
        "context_with_objects_is_deleted",
        "api/context.cc",
        "if (refs(ctx->ref) > 1) {",
        "if (false) {",
        [MODEL, LINES],
    ),
    (
        "unordered_rm_is_accepted",
        "api/checks.cc",
        "fits = bits != URMA_TM_RM;",
        "fits = true;",
        [MODEL],
    ),
    (
        "depth_of_zero_is_accepted",
        "api/checks.cc",
        "if (depth == 0) {",
        "if (false) {",
        [MODEL, LINES],
    ),
    (
        "import_without_token_is_accepted",
        "api/checks.cc",
        "if (policy == URMA_TOKEN_NONE || token != nullptr) return true;",
        "return true;",
        [MODEL],
    ),
    (
        "token_id_in_use_is_freed",
        "api/segment.cc",
        "if (refs(token_id->ref) != 0) {",
        "if (false) {",
        [MODEL],
    ),
    (
        "second_peer_has_another_status",
        "api/target.cc",
        "return URMA_EEXIST;",
        "return URMA_EINVAL;",
        [MODEL],
    ),
    (
        "bound_jetty_has_another_status",
        "api/jetty.cc",
        "return URMA_ENOPERM;",
        "return URMA_EAGAIN;",
        [MODEL],
    ),
    # Queues and their completions.
    (
        "receive_record_says_sent",
        "jetty/message_receiver.cc",
        "way->record.flag.bs.s_r = 1;",
        "way->record.flag.bs.s_r = 0;",
        [MODEL],
    ),
    (
        "records_come_backwards",
        "jetty/completion_queue.cc",
        "cr[i] = at(i);",
        "cr[i] = at(taken - 1 - i);",
        [COMPLETIONS, MODEL],
    ),
    (
        "rearm_does_not_fire_at_once",
        "jetty/completion_queue_events.cc",
        "if (waiting != 0) completed(waiting, solicited);",
        "",
        [COMPLETIONS],
    ),
    (
        "wide_additions_are_accepted",
        "jetty/work_request.cc",
        "      return bytes == 4 || bytes == 8;",
        "      return bytes == 4 || bytes == 8 || bytes == 16;",
        [MODEL],
    ),
    (
        "batch_names_the_first_object",
        "jetty/queue_ops.cc",
        "*bad = handles[i];",
        "*bad = handles[0];",
        [MODEL, LINES],
    ),
    # Memory.
    (
        "token_of_a_segment_is_not_compared",
        "segment/segment.cc",
        "if (segment.token_policy != URMA_TOKEN_NONE && segment.token.token != token.token) {",
        "if (false) {",
        [MODEL, LINES],
    ),
    (
        "unregistering_revokes_nothing",
        "segment/segment.cc",
        "  words_[ref.index].store(ref.generation + 1, std::memory_order_release);",
        "",
        [MODEL],
    ),
    (
        "rights_are_not_checked",
        "jetty/request_path.cc",
        "grant.allows(access.rights) && ",
        "",
        [MODEL, LINES],
    ),
    (
        "atomic_returns_another_value",
        "jetty/memory_access.cc",
        "before[0] = execute_atomic(opcode, target, width, operand[0], operand[2]);",
        "before[0] = execute_atomic(opcode, target, width, operand[0], operand[2]) + 1;",
        [MAPPED_MODEL],
    ),
    # Messages.
    (
        "token_of_a_queue_is_not_compared",
        "jetty/transport.cc",
        "if (endpoint.token_policy != URMA_TOKEN_NONE && endpoint.token.token != token) {",
        "if (false) {",
        [MODEL, LINES],
    ),
    (
        "no_receive_has_another_status",
        "jetty/message_receiver.cc",
        "return URMA_CR_RNR_RETRY_CNT_EXC_ERR;",
        "return URMA_CR_ACK_TIMEOUT_ERR;",
        [MODEL],
    ),
    (
        "short_receive_has_another_status",
        "jetty/message_receiver.cc",
        "return URMA_CR_REM_RESP_LEN_ERR;",
        "return URMA_CR_REM_OPERATION_ERR;",
        [MODEL, LINES],
    ),
    (
        "sender_has_no_uasid",
        "jetty/message_receiver.cc",
        "way->record.remote_id = way->sender;",
        "way->record.remote_id = way->sender;\n  way->record.remote_id.uasid = 0;",
        [MODEL],
    ),
    # States, groups and peers.
    (
        "marker_comes_twice",
        "jetty/sender.cc",
        "if (queue_.state() == state) return;",
        "",
        [LIFE, MODEL],
    ),
    (
        "limit_stays_armed",
        "jetty/receiver.cc",
        "    limit.subject->raise(limit.event);\n    return true;",
        "    limit.subject->raise(limit.event);\n    return false;",
        [LIFE, MODEL],
    ),
    (
        "unbinding_keeps_the_target",
        "jetty/jetty_object.cc",
        "bound_->bound.store(nullptr);",
        "",
        [LINES, MODEL],
    ),
    (
        "full_group_takes_more",
        "api/group.cc",
        "if (members < most) {",
        "if (true) {",
        [LINES],
    ),
    (
        "default_order_stays",
        "api/target.cc",
        "  settle_order(*remote);\n",
        "",
        [LINES],
    ),
]

# All of the above, and each once.
FINDERS = [finder for finder in {
    finder: True
    for fault in FAULTS
    for finder in fault[4]
}.keys()]
