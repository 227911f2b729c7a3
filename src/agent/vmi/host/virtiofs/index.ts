/**
 * Owns: the sockets on which side containers of a launcher's pod serve file systems to its guest.
 * Must not know: how such containers are made and run, domain XML.
 */
export { virtiofsSockets } from './virtiofs-sockets.ts';
