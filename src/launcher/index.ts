/**
 * Owns: virt-launcher, one process per VMI: its pod directories, its own libvirt daemon, the Cmd service, the domain's life,
 * events to the agent, the guest agent, the end of it all (spec 70).
 * Must not know: Kubernetes, the agent's decisions, argv, environment variables and signals (src/bin hands them in).
 */
export { LauncherError, type LauncherErrorCode } from './errors.ts';
export { launcherUsage, type ParsedFlags, parseLauncherFlags } from './flags.ts';
export { Launcher, type LauncherDeps, type LauncherSettings } from './launcher.ts';
export { type LauncherEnvironment, type LauncherOptions, launcherEnvironment } from './options.ts';
