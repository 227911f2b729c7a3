/**
 * Owns: fitting src/kube, src/domain-cache and src/launcher-client to the ports of the VMI loop.
 * Must not know: rules, steps, status.
 */
export { kubeBackupTrackers } from './backup-trackers.ts';
export { KubeVmis, kubeVmiLookup, kubeVmiWriter } from './kube-vmis.ts';
export { launcherPort } from './launchers.ts';
