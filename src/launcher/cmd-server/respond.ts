import { type handleUnaryCall, status } from '@grpc/grpc-js';
import { errorMessage, type Logger } from '../../base/index.ts';
import { formatLibvirtError, LibvirtError } from '../../libvirt/index.ts';
import type { cmd } from '../../wire/index.ts';

export const ok: cmd.Response = { success: true, message: '' };

/** A handler out of an async function; what it throws becomes a gRPC error of code UNKNOWN, as a Go server makes it. */
export function unary<Request, Answer>(run: (request: Request) => Promise<Answer>): handleUnaryCall<Request, Answer> {
  return (call, callback) => {
    run(call.request).then(
      (answer) => callback(null, answer),
      (error: unknown) => callback({ code: status.UNKNOWN, message: errorMessage(error) }),
    );
  };
}

/** Business failures are no gRPC errors: they travel in the answer. */
export async function attempt<T>(
  work: () => Promise<T>,
): Promise<{ readonly response: cmd.Response; readonly value?: T }> {
  try {
    return { response: ok, value: await work() };
  } catch (error) {
    return { response: { success: false, message: responseMessage(error) } };
  }
}

/** A command whose answer is a bare `Response`; logged with its duration. */
export function command<Request>(
  log: Logger,
  name: string,
  work: (request: Request) => Promise<unknown>,
): handleUnaryCall<Request, cmd.Response> {
  return unary(async (request) => {
    const started = performance.now();
    const { response } = await attempt(() => work(request));
    const fields = { command: name, tookMs: Math.round(performance.now() - started) };
    if (response.success) log.debug(fields, 'command done');
    else log.warn({ ...fields, why: response.message }, 'command failed');
    return response;
  });
}

/** QEMU begins its lines with the time: the same failure would be another text, and so another status write, each try. */
const qemuTimes = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z /g;

/**
 * The text of `Response.message` (`pkg/virt-handler/cmd-client/errors.go` reads it): a bare libvirt error in upstream's form,
 * else the error's text. The same failure gives the same text.
 */
export function responseMessage(error: unknown): string {
  const text = error instanceof LibvirtError ? formatLibvirtError(error) : errorMessage(error);
  return text.replaceAll(qemuTimes, '');
}
