import { isRecord, jsonRecord, plainText } from '../../../base/index.ts';
import type { GuestAgentAnswer } from '../ports.ts';

const basic = [
  'guest-ping',
  'guest-get-time',
  'guest-info',
  'guest-shutdown',
  'guest-network-get-interfaces',
  'guest-get-fsinfo',
  'guest-get-host-name',
  'guest-get-users',
  'guest-get-timezone',
  'guest-get-osinfo',
] as const;
const sshKeys = [
  'guest-ssh-get-authorized-keys',
  'guest-ssh-add-authorized-keys',
  'guest-ssh-remove-authorized-keys',
] as const;
const sshKeysByExec = [
  'guest-exec-status',
  'guest-exec',
  'guest-file-open',
  'guest-file-close',
  'guest-file-read',
  'guest-file-write',
] as const;
const password = ['guest-set-user-password'] as const;

/** Commands of the guest agent that anything here asks for. */
export const asksFor = { basic, sshKeys, sshKeysByExec, password } as const;

const interesting: ReadonlySet<string> = new Set([...basic, ...sshKeys, ...sshKeysByExec, ...password]);

const maxVersionLength = 64;

/**
 * JSON of `GuestInfoResponse` (cmd.proto). What is kept is bounded: version and the commands that are asked for, whatever
 * a guest sends. Text that is no such JSON is an agent nothing is known of.
 */
export function readGuestInfo(json: string): GuestAgentAnswer {
  const info = jsonRecord(json) ?? {};
  const { guestAgentVersion, supportedCommands: listed } = info;
  const version = typeof guestAgentVersion === 'string' ? plainText(guestAgentVersion.slice(0, maxVersionLength)) : '';
  if (!Array.isArray(listed) || listed.length === 0) return { version };
  const enabled = new Set<string>();
  for (const entry of listed) {
    if (isRecord(entry) && entry.enabled === true && typeof entry.name === 'string' && interesting.has(entry.name))
      enabled.add(entry.name);
  }
  return { version, commands: [...enabled].sort() };
}
