import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { clientOptions, cmd, unixTarget } from '../../wire/index.ts';
import { LauncherError } from '../errors.ts';

export type ProbeQuestion = {
  /** Path of the launcher's command socket. */
  readonly socket: string;
  readonly domainName: string;
  readonly timeoutSeconds: number;
} & ({ readonly kind: 'ping' } | { readonly kind: 'exec'; readonly command: string; readonly args: readonly string[] });

export interface ProbeAnswer {
  /** Of the guest's program; 0 for a guest agent that answers. */
  readonly exitCode: number;
  /** What the program wrote. */
  readonly stdout: string;
}

/** For the launcher, beyond the guest's own time. */
const launcherMs = 1_000;

/** Asks the guest by way of its launcher. Rejects with LauncherError AGENT_FAILED when it does not answer. */
export async function askGuest(question: ProbeQuestion): Promise<ProbeAnswer> {
  const { socket, timeoutSeconds } = question;
  const place = unixTarget(socket);
  const client = new cmd.CmdClient(place.target, credentials.createInsecure(), clientOptions());
  try {
    return await ask(client, question, { deadline: Date.now() + timeoutSeconds * 1000 + launcherMs });
  } catch (cause) {
    throw new LauncherError('AGENT_FAILED', wordsOf(cause as ServiceError, question), { cause });
  } finally {
    client.close();
    place.close();
  }
}

function ask(
  client: InstanceType<typeof cmd.CmdClient>,
  question: ProbeQuestion,
  options: { readonly deadline: number },
): Promise<ProbeAnswer> {
  const { domainName, timeoutSeconds } = question;
  return new Promise((resolve, reject) => {
    /** A launcher may also say no in its answer. */
    const answered = (error: ServiceError | null, answer: Answer, result: () => ProbeAnswer) => {
      if (error) reject(error);
      else if (answer.response?.success === false) reject(new Error(answer.response.message));
      else resolve(result());
    };
    if (question.kind === 'ping') {
      client.guestPing({ domainName, timeoutSeconds }, new Metadata(), options, (error, answer) =>
        answered(error, answer, () => ({ exitCode: 0, stdout: '' })),
      );
      return;
    }
    const { command: Command, args } = question;
    client.exec({ domainName, Command, Args: [...args], timeoutSeconds }, new Metadata(), options, (error, answer) =>
      answered(error, answer, () => ({ exitCode: answer.exitCode, stdout: answer.stdOut })),
    );
  });
}

type Answer = Pick<cmd.GuestPingResponse, 'response'>;

function wordsOf({ details, message }: ServiceError, { kind, socket }: ProbeQuestion): string {
  const what = kind === 'ping' ? 'the guest agent does not answer' : 'the command could not be run in the guest';
  return `${what} (launcher at ${socket}): ${details || message}`;
}
