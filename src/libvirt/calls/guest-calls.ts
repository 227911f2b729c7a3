import { AgentTimeout, KeycodeSet } from '../constants.ts';
import type { DomainRef } from '../domain.ts';
import { procedures } from '../procedures.ts';
import { type TypedParams, typedParamMap } from '../typed-params.ts';
import { BackupCalls } from './backup-calls.ts';
import type { LibvirtCallOptions } from './connection-calls.ts';

export interface GuestInterface {
  readonly name: string;
  readonly hwaddr: string | undefined;
  /** `type`: 0 IPv4, 1 IPv6. */
  readonly addresses: readonly { readonly type: number; readonly address: string; readonly prefix: number }[];
}

export interface GuestFileSystem {
  readonly mountpoint: string;
  readonly name: string;
  readonly fstype: string;
  /** Target devices (`vda`). */
  readonly devices: readonly string[];
}

export interface SendKeyOptions {
  /** `KeycodeSet`; LINUX unless given. */
  readonly codeset?: number;
  readonly holdTimeMs?: number;
}

/** Calls that reach into the guest; most need its agent (AGENT_UNRESPONSIVE without). */
export abstract class GuestCalls extends BackupCalls {
  /** `source`: `AddressSource`. */
  async interfaceAddresses(
    domain: DomainRef,
    source: number,
    options?: LibvirtCallOptions,
  ): Promise<readonly GuestInterface[]> {
    const args = { domain, source, flags: 0 };
    return (await this.invoke(procedures.domainInterfaceAddresses, args, options)).interfaces;
  }

  /** `types`: `GuestInfoType`; names of libvirt-domain.h. */
  async getGuestInfo(domain: DomainRef, types: number, options?: LibvirtCallOptions): Promise<TypedParams> {
    const args = { domain, types, flags: 0 };
    return typedParamMap((await this.invoke(procedures.domainGetGuestInfo, args, options)).params);
  }

  async getFsInfo(domain: DomainRef, options?: LibvirtCallOptions): Promise<readonly GuestFileSystem[]> {
    return (await this.invoke(procedures.domainGetFsInfo, { domain, flags: 0 }, options)).fileSystems;
  }

  /** Number of frozen file systems. No mount points: all. */
  async fsFreeze(
    domain: DomainRef,
    mountPoints: readonly string[] = [],
    options?: LibvirtCallOptions,
  ): Promise<number> {
    return (await this.invoke(procedures.domainFsFreeze, { domain, mountPoints, flags: 0 }, options)).value;
  }

  /** Number of thawed file systems. No mount points: all. */
  async fsThaw(domain: DomainRef, mountPoints: readonly string[] = [], options?: LibvirtCallOptions): Promise<number> {
    return (await this.invoke(procedures.domainFsThaw, { domain, mountPoints, flags: 0 }, options)).value;
  }

  /** Sets the guest's wall clock. */
  setTime(domain: DomainRef, seconds: bigint, nanoseconds = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainSetTime, { domain, seconds, nanoseconds, flags: 0 }, options);
  }

  /**
   * One command of the guest agent as JSON text; gives its whole answer (`{"return":...}`).
   * `timeoutSeconds`: `AgentTimeout` or seconds. The wait here is never shorter than that unless `timeoutMs` says so.
   */
  async agentCommand(
    domain: DomainRef,
    command: string,
    timeoutSeconds: number = AgentTimeout.DEFAULT,
    flags = 0,
    options: LibvirtCallOptions = {},
  ): Promise<string> {
    const agentMs = timeoutSeconds > 0 ? { timeoutMs: timeoutSeconds * 1000 + 30_000 } : {};
    const args = { domain, command, timeoutSeconds, flags };
    return (await this.invoke(procedures.agentCommand, args, { ...agentMs, ...options })).result ?? '';
  }

  /** One QMP command as JSON text (`flags`: `MonitorFlag`; HMP: a line of the human monitor). Marks the domain as tainted. */
  async monitorCommand(domain: DomainRef, command: string, flags = 0, options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.monitorCommand, { domain, command, flags }, options)).result;
  }

  /** The password stays out of every error text. */
  setUserPassword(domain: DomainRef, user: string, password: string, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainSetUserPassword, { domain, user, password, flags: 0 }, options);
  }

  /** Replaces the user's authorized keys. */
  setAuthorizedSshKeys(
    domain: DomainRef,
    user: string,
    keys: readonly string[],
    options?: LibvirtCallOptions,
  ): Promise<void> {
    return this.invoke(procedures.domainSetAuthorizedSshKeys, { domain, user, keys, flags: 0 }, options);
  }

  /** What a guest's encrypted memory was measured to be; names of libvirt-domain.h (`sev-measurement`). None of a guest without. */
  async getLaunchSecurityInfo(domain: DomainRef, options?: LibvirtCallOptions): Promise<TypedParams> {
    return typedParamMap(
      (await this.invoke(procedures.domainGetLaunchSecurityInfo, { domain, flags: 0 }, options)).params,
    );
  }

  /** Gives a guest that has not run yet a secret of its owner; both in base64. */
  setLaunchSecret(
    domain: DomainRef,
    { header, secret }: { readonly header: string; readonly secret: string },
    options?: LibvirtCallOptions,
  ): Promise<void> {
    const params = [
      { field: 'sev-secret-header', type: 'string', value: header },
      { field: 'sev-secret', type: 'string', value: secret },
    ] as const;
    return this.invoke(procedures.domainSetLaunchSecurityState, { domain, params, flags: 0 }, options);
  }

  /** Presses keys together, then releases them. */
  sendKey(
    domain: DomainRef,
    keycodes: readonly number[],
    { codeset = KeycodeSet.LINUX, holdTimeMs = 0 }: SendKeyOptions = {},
    options?: LibvirtCallOptions,
  ): Promise<void> {
    return this.invoke(procedures.domainSendKey, { domain, codeset, holdTimeMs, keycodes, flags: 0 }, options);
  }

  injectNmi(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainInjectNmi, { domain, flags: 0 }, options);
  }
}
