import { CodedError } from '../../base/index.ts';

/**
 * `NO_HANDOVER`: the agent has not set up a network of this VMI in the pod; `BAD_HANDOVER`: what it left cannot be read;
 * `INVALID_OPTIONS`: `dhcpOptions` or a subnet of the VMI; `DHCP_FAILED`: the server cannot listen on the bridge.
 */
export type NetworkErrorCode = 'NO_HANDOVER' | 'BAD_HANDOVER' | 'INVALID_OPTIONS' | 'DHCP_FAILED';

/** Why a network of the VMI is not there. The message says what to do; it is shown to the user. */
export class NetworkError extends CodedError<NetworkErrorCode> {}
