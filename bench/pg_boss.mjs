// pg-boss beside Interlock's runs: jobs created, fetched and completed one by one, 128 at a time.
import {PgBoss} from 'pg-boss';

const [uri, seconds] = [process.argv[2], Number(process.argv[3])];
const boss = new PgBoss({connectionString: uri, max: 16});
boss.on('error', (error) => { throw error; });
await boss.start();
await boss.createQueue('bench');

let done = 0;
const client = async (until) => {
  while (performance.now() < until) {
    await boss.send('bench', {});
    const [job] = await boss.fetch('bench');
    if (!job) continue;
    await boss.complete('bench', job.id);
    done += 1;
  }
};
const rush = async (time) => {
  done = 0;
  const begun = performance.now();
  await Promise.all(Array.from({length: 128}, () => client(begun + time * 1000)));
  return done / ((performance.now() - begun) / 1000);
};
await rush(1);
console.log(await rush(seconds));
await boss.stop({graceful: false});
process.exit(0);
