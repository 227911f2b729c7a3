import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { errorMessage, isRecord } from '../../base/index.ts';
import { isLibvirtError, type TypedParams } from '../../libvirt/index.ts';
import { launchSecurityNeeds, loaderIn } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';

interface Options {
  readonly domainName: string;
}

interface Deps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'xml' | 'sevInfo' | 'launchSecurityInfo' | 'setLaunchSecret'>;
}

/** libvirt's name → KubeVirt's. */
const platformNames = { pdh: 'pdh', 'cert-chain': 'certChain' };
const measurementNames = {
  'sev-measurement': 'measurement',
  'sev-api-major': 'apiMajor',
  'sev-api-minor': 'apiMinor',
  'sev-build-id': 'buildID',
  'sev-policy': 'policy',
};

/** What the owner of a guest with AMD SEV asks of it while it stands still before its first instruction (upstream: virtwrap/manager.go). */
export class SevAttestation {
  readonly #options: Options;
  readonly #deps: Deps;

  constructor(options: Options, deps: Deps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The processor's key and certificates. Throws LauncherError NOT_SUPPORTED where there is no SEV. */
  async platform(): Promise<object> {
    const params = await this.#deps.hypervisor.sevInfo().catch((cause: unknown) => {
      if (!isLibvirtError(cause)) throw cause;
      throw new LauncherError('NOT_SUPPORTED', `${launchSecurityNeeds.sev} (${cause.message})`, { cause });
    });
    return renamed(params, platformNames);
  }

  /** Throws LauncherError DOMAIN_NOT_FOUND, NOT_SUPPORTED for a guest that was started without. */
  async measurement(): Promise<object> {
    const { hypervisor } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const params = await hypervisor.launchSecurityInfo(domain);
    if (!params.has('sev-measurement')) throw withoutSev();
    const loader = loaderIn(await hypervisor.xml(domain));
    if (loader === undefined)
      throw new LauncherError('NOT_SUPPORTED', 'the guest has no firmware of its own to measure');
    return { ...renamed(params, measurementNames), loaderSHA: await digestOf(loader) };
  }

  /** `options`: JSON with `header` and `secret`, base64. Throws LauncherError INVALID_REQUEST, DOMAIN_NOT_FOUND, NOT_SUPPORTED. */
  async injectSecret(options: Uint8Array): Promise<void> {
    const secret = secretIn(options);
    const { hypervisor } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    await hypervisor.setLaunchSecret(domain, secret).catch((cause: unknown) => {
      throw isLibvirtError(cause, 'OPERATION_UNSUPPORTED', 'CONFIG_UNSUPPORTED') ? withoutSev(cause) : cause;
    });
  }
}

function withoutSev(cause?: unknown): LauncherError {
  const text = 'the guest was started without SEV: spec.domain.launchSecurity.sev asks for it';
  return new LauncherError('NOT_SUPPORTED', text, { cause });
}

function renamed(params: TypedParams, names: Readonly<Record<string, string>>): object {
  const found = Object.entries(names).map(([name, ours]) => [ours, params.get(name)] as const);
  return Object.fromEntries(found.filter(([, value]) => value !== undefined));
}

/** In hexadecimal digits. */
async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash).catch((cause: unknown) => {
    const text = `the firmware of the guest cannot be read: ${errorMessage(cause)}`;
    throw new LauncherError('SETUP_FAILED', text, { cause });
  });
  return hash.digest('hex');
}

/** The secret stays out of every error text. */
function secretIn(options: Uint8Array): { readonly header: string; readonly secret: string } {
  const given = parsed(options);
  const text = (name: string) => (typeof given[name] === 'string' ? given[name] : '');
  const [header, secret] = [text('header'), text('secret')];
  if (!header || !secret)
    throw invalidRequest(`${header ? 'secret' : 'header'} is required: base64 of what its owner sealed`);
  return { header, secret };
}

function parsed(options: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(Buffer.from(options).toString('utf8'));
    if (isRecord(value)) return value;
  } catch {
    // Said below, without the text.
  }
  throw invalidRequest('the options are no JSON object with header and secret');
}

const invalidRequest = (problem: string) => new LauncherError('INVALID_REQUEST', problem);
