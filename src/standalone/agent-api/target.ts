import { readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { errorCode } from '../../base/index.ts';
import { expectCommonName, serverCommonName } from '../../tls/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { memberIndex, memberPaths, type NodePaths } from '../paths.ts';
import { arrivalByApi, type UntilArrived } from './arrival.ts';
import { type NodeOfVmi, nodeFromApi, vmiOfPath } from './node-of-vmi.ts';

/** Where the agent serves consoles and lifecycle calls. */
export interface AgentAddress {
  readonly host: string;
  readonly port: number;
}

/** All that a client of the agent needs, as it is now. PEM texts. */
export interface AgentTarget extends AgentAddress {
  /** Authorities that the agent's certificate may be of. */
  readonly ca: string;
  /** Of the only client that agents accept. */
  readonly cert: string;
  readonly key: string;
}

/**
 * Asked before each connection: port and certificates change while a client lives, and a VM moves between nodes. `path`: what is asked
 * of the agent; the node of the VMI that it names is meant. `refused`: an agent said that it cannot be had there, so a VMI that moves
 * is waited for until it has arrived. Rejects with NodeError.
 */
export type FindAgent = (path?: string, refused?: Refused) => Promise<AgentTarget>;

interface Refused {
  readonly by: AgentAddress;
  readonly signal: AbortSignal;
}

/** Finds the agent that has the VMI, of those that run on this state directory. One alone is asked without looking where the VMI is. */
export function agentOf(
  paths: NodePaths,
  nodeOf: NodeOfVmi = nodeFromApi(paths),
  untilArrived: UntilArrived = arrivalByApi(paths),
): FindAgent {
  return async (asked, refused) => {
    const vmi = vmiOfPath(asked ?? '');
    if (refused && vmi && (await knownAgents(paths)).length > 1) await untilArrived(vmi, refused.signal);
    const address = await chosenAgent(paths, nodeOf, asked);
    const read = (file: string) => readSecret(path.join(paths.certificatesDir, file));
    const [ca, cert, key] = await Promise.all([read('ca.crt'), read('client/tls.crt'), read('client/tls.key')]);
    return { host: address.host, port: address.port, ca, cert, key };
  };
}

async function chosenAgent(paths: NodePaths, nodeOf: NodeOfVmi, asked = ''): Promise<AgentAddress> {
  const [first, ...others] = await knownAgents(paths);
  if (!first) {
    const text = `no node runs on ${paths.stateDir}: start it with \`npm run up\` or \`virt-node start\``;
    throw new NodeError('NOT_RUNNING', text);
  }
  const vmi = vmiOfPath(asked);
  if (others.length === 0 || !vmi) return first;
  const node = await nodeOf(vmi);
  // A VMI that is nowhere: any agent says so in its own words.
  if (node === undefined) return first;
  const found = [first, ...others].find((agent) => agent.node === node);
  if (found) return found;
  throw new NodeError('AGENT_AWAY', `${vmi.namespace}/${vmi.name} is on node ${node}, which does not run here`);
}

/** For programs that come later: the port is chosen anew at each start of the node. */
export async function rememberAgentAddress(
  { agentAddress }: NodePaths,
  address: AgentAddress & { readonly node?: string },
): Promise<void> {
  await writeFileAtomic(agentAddress, `${JSON.stringify(address)}\n`);
}

/** A node that is no more has no agent. */
export async function forgetAgentAddress({ agentAddress }: NodePaths): Promise<void> {
  await rm(agentAddress, { force: true });
}

/** One agent of those that were started on this state directory. */
export interface KnownAgent extends AgentAddress {
  /** Its Node object; an older version did not write it. */
  readonly node: string | undefined;
  /** Where it explains what it does. */
  readonly socket: string;
}

/** Those of all nodes, the first one first. Throws NodeError NOT_RUNNING for a file that cannot be read. */
export async function knownAgents(paths: NodePaths): Promise<KnownAgent[]> {
  const names = await readdir(paths.runDir).catch((): string[] => []);
  const indices = names.flatMap((name) => memberIndex(name, 'agent', '.json') ?? []).sort((a, b) => a - b);
  const found = await Promise.all(indices.map((index) => readAgentAddress(memberPaths(paths, index))));
  return found.filter((agent) => agent !== undefined);
}

/** Verifies authority and common name of the agent: it has no host names (upstream's pkg/util/tls/tls.go verifies the same). */
export function tlsOptionsOf({ ca, cert, key }: AgentTarget): ConnectionOptions {
  return {
    ca,
    cert,
    key,
    minVersion: 'TLSv1.2',
    checkServerIdentity: (host, certificate) => {
      const cause = expectCommonName(serverCommonName)(host, certificate);
      return cause && new NodeError('AGENT_FOREIGN', `what answers is not virt-handler: ${cause.message}`, { cause });
    },
  };
}

async function readAgentAddress({ agentAddress, agentSocket }: NodePaths): Promise<KnownAgent | undefined> {
  const text = await readIfThere(agentAddress);
  if (text === undefined) return undefined;
  try {
    const { host, port, node } = JSON.parse(text) as Partial<KnownAgent>;
    if (typeof host === 'string' && typeof port === 'number') return { host, port, node, socket: agentSocket };
  } catch {
    // Torn or foreign: reported below.
  }
  throw new NodeError('NOT_RUNNING', `${agentAddress} is unreadable: start the node again`);
}

async function readSecret(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    if (errorCode(cause) === 'EACCES') {
      throw new NodeError('NO_PERMISSION', `${file} is for root only: use sudo`, { cause });
    }
    throw new NodeError('NOT_RUNNING', `${file} cannot be read (${errorCode(cause)}): start the node again`, { cause });
  }
}
