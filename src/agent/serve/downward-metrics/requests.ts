/** A request is two lines; a guest that sends more without an end is not waited for. */
const maxBytes = 4096;

export type ChannelRequest = 'figures' | 'invalid';

/**
 * What a guest wrote on its channel: `GET /metrics/XML` and an empty line, as pkg/downwardmetrics/virtio-serial/server.go reads it. After what
 * is no request the rest that has come goes too, so that it spoils no later one.
 */
export class ChannelRequests {
  #text = '';

  push(bytes: Uint8Array): void {
    this.#text += Buffer.from(bytes).toString('latin1');
  }

  /** Undefined: more has to come. */
  next(): ChannelRequest | undefined {
    const [line, blank, ...rest] = this.#text.split('\n');
    if (line === undefined || blank === undefined || rest.length === 0) {
      return this.#text.length > maxBytes ? this.#forget() : undefined;
    }
    if (bare(blank) !== '') return this.#forget();
    this.#text = rest.join('\n');
    return isForFigures(bare(line)) ? 'figures' : 'invalid';
  }

  #forget(): 'invalid' {
    this.#text = '';
    return 'invalid';
  }
}

function bare(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}

function isForFigures(line: string): boolean {
  const [method, target, ...more] = line.split(' ');
  return method === 'GET' && more.length === 0 && target?.split('?')[0] === '/metrics/XML';
}
