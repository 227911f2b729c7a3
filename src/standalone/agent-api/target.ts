import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { errorCode } from '../../base/index.ts';
import { expectCommonName, serverCommonName } from '../../tls/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';

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

/** Asked before each connection: port and certificates change while a client lives. Rejects with NodeError. */
export type FindAgent = () => Promise<AgentTarget>;

/** Finds the agent of the node that runs on this state directory. */
export function agentOf(paths: NodePaths): FindAgent {
  return async () => {
    const address = await readAgentAddress(paths);
    const read = (file: string) => readSecret(path.join(paths.certificatesDir, file));
    const [ca, cert, key] = await Promise.all([read('ca.crt'), read('client/tls.crt'), read('client/tls.key')]);
    return { ...address, ca, cert, key };
  };
}

/** For programs that come later: the port is chosen anew at each start of the node. */
export async function rememberAgentAddress({ agentAddress }: NodePaths, address: AgentAddress): Promise<void> {
  await writeFileAtomic(agentAddress, `${JSON.stringify(address)}\n`);
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

async function readAgentAddress({ agentAddress, stateDir }: NodePaths): Promise<AgentAddress> {
  const text = await readIfThere(agentAddress);
  if (text === undefined) {
    throw new NodeError(
      'NOT_RUNNING',
      `no node runs on ${stateDir}: start it with \`npm run up\` or \`virt-node start\``,
    );
  }
  try {
    const { host, port } = JSON.parse(text) as Partial<AgentAddress>;
    if (typeof host === 'string' && typeof port === 'number') return { host, port };
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
