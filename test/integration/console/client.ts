import { WebSocket } from 'ws';
import type { StreamKind } from '../../../src/console/index.ts';
import { eventually } from '../../fixtures/eventually.ts';

export const plain = 'plain.kubevirt.io';
export const aware = 'session.virt-handler.io';

export interface ClientOptions {
  /** Default: `plain.kubevirt.io`; `[]` for none. */
  readonly protocols?: readonly string[];
  readonly kind?: StreamKind;
  readonly uid?: string;
  readonly autoPong?: boolean;
}

export interface SeenNotice {
  readonly kind: string;
  readonly role?: string;
  readonly line?: string;
  readonly offset?: number;
  readonly replayed?: number;
  readonly lost?: number;
  readonly count?: number;
  readonly reason?: string;
}

export interface ClientEnd {
  readonly code: number;
  readonly reason: string;
}

/** A websocket client that remembers what it got. */
export class Client {
  readonly websocket: WebSocket;
  readonly notices: SeenNotice[] = [];
  /** Status and body, where the upgrade was refused. */
  refusal: { readonly status: number; readonly type: string | undefined; readonly body: string } | undefined;
  #chunks: Buffer[] = [];
  #end: ClientEnd | undefined;
  bytes = 0;

  constructor(url: string, { protocols = [plain], autoPong = true }: ClientOptions) {
    const websocket = new WebSocket(url, [...protocols], { rejectUnauthorized: false, autoPong });
    this.websocket = websocket;
    websocket.on('message', (data: Buffer, isBinary) => this.#onMessage(data, isBinary));
    websocket.on('error', () => undefined);
    websocket.on('unexpected-response', (_, response) => {
      const { statusCode: status = 0, headers } = response;
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        body += text;
      });
      response.on('end', () => {
        this.refusal = { status, type: headers['content-type'], body };
      });
    });
    websocket.on('close', (code, reason) => {
      this.#end = { code, reason: reason.toString() };
    });
  }

  /** Resolves when the session is open. */
  async opened(): Promise<this> {
    await eventually(() => {
      if (this.websocket.readyState !== WebSocket.OPEN) throw new Error(`not open: ${JSON.stringify(this.refusal)}`);
    });
    return this;
  }

  async refused(): Promise<NonNullable<Client['refusal']>> {
    await eventually(() => {
      if (!this.refusal) throw new Error('not refused');
    });
    return this.refusal as NonNullable<Client['refusal']>;
  }

  /** How the session ended, once it has. */
  get closed(): Promise<ClientEnd> {
    const end = async () => {
      await eventually(() => {
        if (!this.#end) throw new Error('the session goes on');
      });
      return this.#end as ClientEnd;
    };
    return end();
  }

  /** All that came since the last `forget`. */
  get received(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  forget(): void {
    this.#chunks = [];
  }

  async gets(text: string): Promise<void> {
    await eventually(() => {
      if (!this.text.includes(text)) throw new Error(`${JSON.stringify(text)} is not in ${JSON.stringify(this.text)}`);
    });
  }

  async notice(kind: string, matches: (notice: SeenNotice) => boolean = () => true): Promise<SeenNotice> {
    await eventually(() => {
      if (!this.#find(kind, matches)) throw new Error(`no such ${kind}: ${JSON.stringify(this.notices)}`);
    });
    return this.#find(kind, matches) as SeenNotice;
  }

  send(text: string): void {
    this.websocket.send(Buffer.from(text));
  }

  stop(): void {
    this.websocket.terminate();
  }

  #find(kind: string, matches: (notice: SeenNotice) => boolean): SeenNotice | undefined {
    return this.notices.find((notice) => notice.kind === kind && matches(notice));
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (isBinary) {
      this.#chunks.push(data);
      this.bytes += data.length;
    } else this.notices.push(JSON.parse(data.toString()) as SeenNotice);
  }
}
