/**
 * What the API of a standalone node and a launcher say to each other on the socket by which ports of a guest with QEMU's user networking are reached: a line each, then the bytes of the port.
 * The launcher makes it in its private directory, beside the guest's console and screen.
 */
export const guestPortsSocket = 'guest-ports';

/** Longest line, without its end. */
export const maxGuestPortsLine = 1024;

/** The caller's line. `port`: TCP, 1 to 65535. */
export function guestPortRequest(port: number): string {
  return `tcp ${port}`;
}

/** Undefined: it is no request. */
export function parseGuestPortRequest(line: string): number | undefined {
  const [protocol, text = '', ...more] = line.split(' ');
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return protocol === 'tcp' && more.length === 0 && port >= 1 && port <= 65_535 ? port : undefined;
}

/** The launcher's line. `refusal`: why there are no bytes, in words for the user; undefined: they follow. */
export function guestPortAnswer(refusal?: string): string {
  return refusal === undefined ? 'ok' : `no ${refusal.replaceAll('\n', ' ')}`.slice(0, maxGuestPortsLine);
}

/** Why the port is not reached; undefined: it is. */
export function refusalIn(answer: string): string | undefined {
  if (answer === 'ok') return undefined;
  return answer.startsWith('no ') ? answer.slice(3) : `the launcher answers with ${JSON.stringify(answer)}`;
}
