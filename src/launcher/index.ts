/**
 * Owns: virt-launcher, one process per VMI: its pod directories, its own libvirt daemon, the Cmd service, the domain's life,
 * events to the agent, the guest agent, the end of it all.
 * Must not know: Kubernetes, the agent's decisions, argv, environment variables and signals (src/bin hands them in).
 */
export { LauncherError } from './errors.ts';
export { launcherUsage, parseLauncherFlags } from './flags.ts';
export { Launcher } from './launcher.ts';
export { type LauncherOptions, launcherEnvironment } from './options.ts';
