/**
 * Owns: backups of a running guest's disks into a volume that was plugged in, the checkpoints that later ones begin at, one at a time, how
 * each ended.
 * Must not know: how a claim came into the pod, the command server, the agent.
 */
export { VmBackup } from './backup.ts';
