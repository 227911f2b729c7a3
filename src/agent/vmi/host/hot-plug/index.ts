/**
 * Owns: volumes that are plugged into launchers: their nodes and mounts in the launcher's pod, device rules, upstream's record.
 * Must not know: when a volume is plugged or unplugged, phases of volumes, launchers' calls.
 */
export { type HotPlugDeps, type HotPlugOptions, hotPlugVolumes } from './hot-plug-volumes.ts';
