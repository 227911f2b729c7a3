import { CodedError } from '../base/index.ts';

export type NodeErrorCode =
  /** Wrong use of the command line; the message says the right one. */
  | 'USAGE'
  | 'ALREADY_RUNNING'
  | 'NOT_RUNNING'
  | 'NOT_FOUND'
  | 'NO_CONSOLE'
  /** Nothing in the guest answers on a port, or something else than was asked for. */
  | 'GUEST_PORT'
  | 'NO_PERMISSION'
  | 'PORT_TAKEN'
  /** Other users could change, or have changed, what the node reads from its state directory. */
  | 'UNSAFE_STATE_DIR'
  /** A `hostDisk` names a file that is not open to VMs, or no disk. */
  | 'HOST_DISK_REFUSED'
  /** A claim that is not bound yet, or has lost its data. */
  | 'CLAIM_NOT_READY'
  /** What is on disk of a volume or a snapshot is not what it has to be, or cannot be made. */
  | 'VOLUME_DAMAGED'
  /** Pods have the claim. */
  | 'CLAIM_IN_USE'
  | 'IMAGE_MISSING'
  | 'IMAGE_INVALID'
  /** Virtual machines name the image, or have it now. */
  | 'IMAGE_IN_USE'
  /** Bytes that are no disk which a VM can or may have; trying again gives the same. */
  | 'DISK_REFUSED'
  /** What came is not what its checksum says. */
  | 'CHECKSUM_DIFFERS'
  /** A download that did not come to its end; later it may. */
  | 'DOWNLOAD_FAILED'
  /** The server will not give it, and asking again is of no use. */
  | 'DOWNLOAD_REFUSED'
  | 'NO_SPACE'
  /** The pod asks for something that the standalone node does not have. */
  | 'UNSUPPORTED'
  | 'POD_INVALID'
  | 'SANDBOX'
  /** The node's own network for pods cannot be had, or is full. */
  | 'POD_NETWORK'
  | 'CHILD_FAILED'
  | 'TIMEOUT'
  | 'LEFTOVERS'
  /** A program of the system is not installed. */
  | 'PROGRAM_MISSING'
  /** A node that is to go still has virtual machines. */
  | 'NODE_IN_USE'
  /** virt-handler answered, and not with what was asked for; the message is its own. */
  | 'AGENT_REFUSED'
  /** virt-handler does not answer now. */
  | 'AGENT_AWAY'
  /** Something answers on its port that is not it, or does not take our certificate. */
  | 'AGENT_FOREIGN';

/** What went wrong on the standalone node. The message is for people: what, and what to do. */
export class NodeError extends CodedError<NodeErrorCode> {}
