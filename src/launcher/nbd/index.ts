/**
 * Owns: the client's half of NBD on a Unix socket (the protocol of nbd.git's doc/proto.md): one export of a server such as QEMU's, its bytes and
 * what is known of its blocks.
 * Must not know: backups, who wants the bytes.
 */
export { type BlockExtent, NbdClient } from './client.ts';
export { allocationContext, dirtyBitmapContext, holeFlag, zeroFlag } from './protocol.ts';
