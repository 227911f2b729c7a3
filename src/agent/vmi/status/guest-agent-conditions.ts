import { type Domain, findCondition, type VmiSpec, type VmiStatus } from '../../../api/index.ts';
import { listOf, memberAt } from '../../../base/index.ts';
import { asksFor } from '../guest-agent/index.ts';
import { isGuestAgentConnected, type StatusFacts } from '../observe/index.ts';
import type { GuestAgentAnswer } from '../ports.ts';
import { putCondition, removeCondition } from './conditions.ts';

/**
 * `AgentConnected` and `AgentVersionNotSupported`. Both go with the connection; upstream keeps the second one.
 * While nothing is known of a connected agent yet, what was said about it before stays.
 */
export function setAgentConditions(
  status: VmiStatus,
  domain: Domain | undefined,
  spec: VmiSpec | undefined,
  { guestAgent, config }: StatusFacts,
  now: string,
): void {
  if (!isGuestAgentConnected(domain)) {
    removeCondition(status, 'AgentConnected');
    removeCondition(status, 'AgentVersionNotSupported');
    return;
  }
  if (!findCondition(status.conditions, 'AgentConnected'))
    putCondition(status, { type: 'AgentConnected', status: 'True', lastProbeTime: now }, null);
  if (!guestAgent || (guestAgent.version === '' && guestAgent.commands === undefined)) return;
  const shortcoming = agentShortcoming(guestAgent, spec, config.supportedGuestAgentVersions);
  const type = 'AgentVersionNotSupported';
  if (shortcoming === undefined) removeCondition(status, type);
  else if (findCondition(status.conditions, type)?.reason !== shortcoming)
    putCondition(status, { type, status: 'True', reason: shortcoming, lastProbeTime: now }, null);
}

/** What a connected agent cannot do that this VMI needs, in upstream's words (pkg/virt-handler/guestagent.go); undefined: it is supported. */
export function agentShortcoming(
  answer: GuestAgentAnswer,
  spec: VmiSpec | undefined,
  supportedVersions: readonly string[],
): string | undefined {
  if (answer.commands === undefined) {
    return supportedVersions.some((pattern) => matches(pattern, answer.version))
      ? undefined
      : `Guest agent version '${answer.version}' is not supported`;
  }
  const lacking = lackingCommands(answer, spec);
  return lacking && `This guest agent doesn't support required ${lacking.what} commands`;
}

/** The condition does not name them: what reads it matches on its reason. */
export function lackingCommands(
  { commands }: GuestAgentAnswer,
  spec: VmiSpec | undefined,
): { readonly what: 'basic' | 'public key' | 'password'; readonly names: readonly string[] } | undefined {
  if (commands === undefined) return undefined;
  const lacks = (wanted: readonly string[]) => wanted.filter((name) => !commands.includes(name));
  const basic = lacks(asksFor.basic);
  if (basic.length > 0) return { what: 'basic', names: basic };
  const wants = propagatedByAgent(spec);
  const keys = lacks(asksFor.sshKeys);
  if (wants.sshKeys && keys.length > 0 && lacks(asksFor.sshKeysByExec).length > 0)
    return { what: 'public key', names: keys };
  const password = lacks(asksFor.password);
  return wants.password && password.length > 0 ? { what: 'password', names: password } : undefined;
}

/** What the guest's agent is to bring into the guest. */
function propagatedByAgent(spec: VmiSpec | undefined): { sshKeys: boolean; password: boolean } {
  const credentials = listOf(spec?.accessCredentials);
  const has = (kind: string) =>
    credentials.some((credential) => memberAt(credential, kind, 'propagationMethod', 'qemuGuestAgent') !== undefined);
  return { sshKeys: has('sshPublicKey'), password: has('userPassword') };
}

/** A version has some ten characters, but the guest says what it likes. */
const maxVersionLength = 64;

/** The patterns are the cluster administrator's; one that is none matches nothing. */
function matches(pattern: string, version: string): boolean {
  try {
    return new RegExp(pattern).test(version.slice(0, maxVersionLength));
  } catch {
    return false;
  }
}
