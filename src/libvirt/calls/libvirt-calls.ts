import type { DomainRef } from '../domain.ts';
import type { EventCallback, EventKind } from '../events.ts';
import { type Procedure, procedures } from '../procedures.ts';
import { collectStream, type RpcStream } from '../stream.ts';
import type { LibvirtCallOptions } from './connection-calls.ts';
import { GuestCalls } from './guest-calls.ts';

export interface Screenshot {
  /** `image/x-portable-pixmap` or `image/png`. */
  readonly mime: string;
  readonly data: Buffer;
}

export interface SubscribeOptions extends LibvirtCallOptions {
  /** Only this domain's events; all domains unless given. */
  readonly domain?: DomainRef;
}

/** Everything that can be asked of libvirt; a single connection and the reconnecting one both offer it. */
export abstract class LibvirtCalls extends GuestCalls {
  /** Sends a call that opens a stream; gives its reply and the stream. */
  abstract openStream<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options?: LibvirtCallOptions,
  ): Promise<{ readonly reply: Reply; readonly stream: RpcStream }>;

  /**
   * Calls back for every event of the kind, in the daemon's order, until the returned function is called.
   * An event kind that the daemon does not know fails with `INTERNAL_ERROR` or `NO_SUPPORT`.
   */
  abstract subscribe<Kind extends EventKind>(
    kind: Kind,
    callback: EventCallback<Kind>,
    options?: SubscribeOptions,
  ): Promise<() => Promise<void>>;

  /** A picture of the guest's screen; `maxBytes` bounds it (`STREAM_TOO_LONG`). */
  async screenshot(
    domain: DomainRef,
    screen = 0,
    options: LibvirtCallOptions & { readonly maxBytes?: number } = {},
  ): Promise<Screenshot> {
    const args = { domain, screen, flags: 0 };
    const { reply, stream } = await this.openStream(procedures.domainScreenshot, args, options);
    const { maxBytes = 64 * 1024 * 1024, timeoutMs = 60_000, signal } = options;
    const data = await collectStream(stream, { maxBytes, timeoutMs, signal });
    return { mime: reply.mime ?? 'application/octet-stream', data };
  }

  /**
   * Attaches to a console; `device` is an alias, the first console unless given. The stream shares the connection:
   * use one of its own, because a reader that does not read stops that connection's calls and events.
   */
  async openConsole(domain: DomainRef, device?: string, flags = 0, options?: LibvirtCallOptions): Promise<RpcStream> {
    const args = { domain, device, flags };
    return (await this.openStream(procedures.domainOpenConsole, args, options)).stream;
  }
}
