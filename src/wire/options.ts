import type { ChannelOptions } from '@grpc/grpc-js';

/** A receiver refuses larger messages; a sender has no limit of its own (upstream: pkg/util/net/grpc). */
export const messageLimitBytes = 4 * 1024 * 1024;

/**
 * Options of a client on a Unix socket. Keepalive stays off: Go servers answer it with too_many_pings. Back-off is short because the
 * other end is on this machine. No client gets the connection or the back-off of another one, whose socket may have had the same
 * path: what is theirs alone tells them apart in the pool that all share. With `grpc.use_local_subchannel_pool` each client has a pool
 * of its own, and each pool a timer of ten seconds: a hundred launchers would wake an idle agent ten times a second.
 */
export function clientOptions(overrides: ChannelOptions = {}): ChannelOptions {
  return {
    'grpc.default_authority': 'localhost',
    'grpc-client': {},
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1_000,
    'grpc.max_receive_message_length': messageLimitBytes,
    'grpc.max_send_message_length': -1,
    'grpc.enable_retries': 0,
    'grpc.enable_http_proxy': 0,
    'grpc.service_config_disable_resolution': 1,
    'grpc.enable_channelz': 0,
    ...overrides,
  };
}

/** Options of a server on a Unix socket. */
export function serverOptions(overrides: ChannelOptions = {}): ChannelOptions {
  return {
    'grpc.max_receive_message_length': messageLimitBytes,
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': 100,
    'grpc.enable_channelz': 0,
    ...overrides,
  };
}
