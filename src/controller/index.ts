/**
 * Owns: what virt-controller does for one node or a small cluster: VMI → launcher pod → hand-over, VM run strategies, live
 * migrations and the emptying of nodes, the defaults that upstream's webhooks set, and (standalone only) a scheduler for launcher pods.
 * Must not know: node paths, sockets, launchers, libvirt, the agent's decisions; argv and the environment.
 */
export { Controller } from './controller.ts';
export { ControllerProgram } from './controller-program.ts';
export { type ControllerFlags, controllerUsage, parseControllerFlags } from './flags.ts';
export { renderLauncherPod } from './pod/index.ts';
