/**
 * Owns: what the commands of `virt-node` do.
 * Must not know: argv, environment and signals (they come as arguments); the inside of a program of the node.
 */

export { documentText } from './answer-format.ts';
export * from './command.ts';
export { completionScript, dynamicWords, shells } from './completion.ts';
export * from './console.ts';
export { ConsoleStream, type ConsoleWish } from './console-stream.ts';
export * from './demo-image.ts';
export * from './exit-code.ts';
export * from './explain.ts';
export { failureText } from './failure.ts';
export * from './find-vmi.ts';
export { defaultApiPort } from './flags.ts';
export { openGuestPort } from './guest-port.ts';
export * from './image-add.ts';
export * from './image-text.ts';
export * from './leftovers.ts';
export * from './list.ts';
export * from './migrate.ts';
export { watchOutput } from './output.ts';
export * from './progress.ts';
export * from './screenshot.ts';
export * from './serial-login.ts';
export * from './ssh.ts';
export { scpFilesOf, sshOptions } from './ssh-arguments.ts';
export * from './status.ts';
export { stopNode } from './stop.ts';
export * from './style.ts';
export * from './up.ts';
export * from './users.ts';
export * from './version.ts';
export * from './vm-agent.ts';
export * from './vnc-proxy.ts';
