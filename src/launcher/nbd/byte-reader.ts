import type { Socket } from 'node:net';

/** So many bytes of a socket at a time, one asker after the other. What is not asked for stays in the socket: whoever sends too much waits. */
export class ByteReader {
  readonly #socket: Socket;
  #end: Error | undefined;
  #wake: () => void = () => undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    const end = (error: Error) => {
      this.#end ??= error;
      this.#wake();
    };
    socket.on('readable', () => this.#wake());
    socket.on('error', end);
    socket.on('close', () => end(new Error('the connection has ended')));
    socket.on('end', () => end(new Error('the connection has ended')));
  }

  /** Rejects when the connection has ended before. */
  async exactly(bytes: number): Promise<Buffer> {
    if (bytes === 0) return Buffer.alloc(0);
    for (;;) {
      const found: Buffer | null = this.#socket.read(bytes);
      if (found && found.length === bytes) return found;
      if (this.#end || found) throw this.#end ?? new Error('the connection has ended');
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
