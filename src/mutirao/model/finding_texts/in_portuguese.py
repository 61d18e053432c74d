"""The texts of findings in Brazilian Portuguese, by the English ones; `{}` is a fact."""

from collections.abc import Mapping

PORTUGUESE: Mapping[str, str] = {
    # the table's head
    "level": "nível",
    "about": "assunto",
    "found": "constatado",
    "what to do": "o que fazer",
    "nothing to examine": "nada a examinar",
    # tasks and schema
    "correct the program: no worker starts": "corrija o programa: nenhum worker inicia",
    "revision {}, as this version needs": "revisão {}, como esta versão precisa",
    "revision {} in schema {}, as this version needs": (
        "revisão {} no esquema {}, como esta versão precisa"
    ),
    "run `mutirao migrate`": "execute `mutirao migrate`",
    "do as this says": "faça o que ali está escrito",
    "the application has Alembic migrations of its own in this database: with the hooks of"
    " mutirao.integrations.alembic in its env.py they leave these tables alone": (
        "a aplicação tem migrações próprias do Alembic neste banco: com os hooks de"
        " mutirao.integrations.alembic no seu env.py, elas não tocam nestas tabelas"
    ),
    # clock
    "this machine and the database agree within a second": (
        "esta máquina e o banco concordam em menos de um segundo"
    ),
    "the database's clock is {} s ahead of this machine's": (
        "o relógio do banco está {} s adiantado em relação ao desta máquina"
    ),
    "the database's clock is {} s behind this machine's": (
        "o relógio do banco está {} s atrasado em relação ao desta máquina"
    ),
    "jobs are due by the database's clock; synchronise both machines (NTP)": (
        "os jobs são devidos pelo relógio do banco; sincronize as duas máquinas (NTP)"
    ),
    # queues and lanes
    "every queue with waiting jobs has a worker": "toda fila com jobs esperando tem um worker",
    "no live worker serves {}": "nenhum worker vivo atende {}",
    "start a worker with these queues (`mutirao worker module:app -q …`), or without -q and"
    " --exclude-queues": (
        "inicie um worker com estas filas (`mutirao worker module:app -q …`), ou sem -q e sem"
        " --exclude-queues"
    ),
    "jobs wait in {} lanes (queue and priority): each worker reads the first job of each at every"
    " poll, and a claim that takes too long may have that reason": (
        "há jobs esperando em {} faixas (fila e prioridade): cada worker lê o primeiro job de cada"
        " uma a cada consulta, e pode ser por isso que uma busca demora demais"
    ),
    "give jobs fewer queues and priorities: fair_by lets users or tenants take turns within one"
    " queue": (
        "dê aos jobs menos filas e prioridades: com fair_by, usuários ou inquilinos se revezam"
        " dentro de uma fila"
    ),
    # tasks
    "webhooks wait: {}; no live worker has their queue by its name": (
        "há webhooks esperando: {}; nenhum worker vivo tem a fila deles pelo nome"
    ),
    "if none delivers them, start one: `mutirao worker module:app --webhooks`, or `mutirao"
    " webhooks --database URL`": (
        "se nenhum os entrega, inicie um: `mutirao worker module:app --webhooks`, ou `mutirao"
        " webhooks --database URL`"
    ),
    "this application has no task {}": "esta aplicação não tem a tarefa {}",
    "the jobs wait for a worker that knows them: deploy the version that does, or `mutirao cancel"
    " --task …`": (
        "os jobs esperam por um worker que a conheça: implante a versão que a tem, ou execute"
        " `mutirao cancel --task …`"
    ),
    "no live worker of its queue serves task {}": (
        "nenhum worker vivo da fila dela atende a tarefa {}"
    ),
    "start a worker with these tasks (`mutirao worker module:app --tasks …`), or without --tasks": (
        "inicie um worker com estas tarefas (`mutirao worker module:app --tasks …`), ou sem --tasks"
    ),
    "this application knows the task of every waiting job": (
        "esta aplicação conhece a tarefa de todo job que espera"
    ),
    # topics
    "no delivery can be made to {}: {}": "nenhuma entrega pode ser criada para {}: {}",
    "put it again (`mutirao subscriptions put`), and enable it, where it was disabled for that;"
    " `mutirao replay --missing` delivers what it has missed": (
        "ponha-a de novo (`mutirao subscriptions put`), e ative-a se foi desativada por isso;"
        " `mutirao replay --missing` entrega o que ela perdeu"
    ),
    "no topic of this application is what is subscribed to: {}": (
        "nenhum tópico desta aplicação é o que se assina: {}"
    ),
    "correct what is misspelt (`mutirao subscriptions put`, or `mutirao endpoints put`), or leave"
    " it, if others publish on it": (
        "corrija o que foi escrito errado (`mutirao subscriptions put`, ou `mutirao endpoints"
        " put`), ou deixe como está, se outros publicam nele"
    ),
    "{} subscriptions, all to topics of this application": (
        "{} assinaturas, todas de tópicos desta aplicação"
    ),
    # limits
    "{} were declared in code and are in no live worker's": (
        "{}: foram declarados no código e não estão no de nenhum worker vivo"
    ),
    "they are still in force: put them back, or `mutirao limits remove`": (
        "ainda estão em vigor: ponha-os de volta, ou execute `mutirao limits remove`"
    ),
    "{} are of subscriptions that were deleted by hand": (
        "{}: são de assinaturas que foram apagadas à mão"
    ),
    "they hold deliveries that are left: `mutirao limits remove`": (
        "retêm entregas que restaram: `mutirao limits remove`"
    ),
    "paused: {}": "em pausa: {}",
    "jobs wait until `mutirao resume`; `mutirao limits list` shows them": (
        "os jobs esperam até `mutirao resume`; `mutirao limits list` mostra as pausas"
    ),
    "webhooks are held: {}": "webhooks estão retidos: {}",
    "`mutirao endpoints list` shows why; `mutirao endpoints resume` or `probe` lets them out": (
        "`mutirao endpoints list` mostra por quê; `mutirao endpoints resume` ou `probe` os libera"
    ),
    "activities are held: {}": "atividades estão retidas: {}",
    "`mutirao hosts list` shows why, `mutirao hosts flush` tries the host": (
        "`mutirao hosts list` mostra por quê, `mutirao hosts flush` tenta o host"
    ),
    "{} in force, nothing is paused": "{} em vigor, nada está em pausa",
    # endpoints
    "{} were deleted by hand; their subscriptions or limits are left": (
        "{}: foram apagados à mão; restam as suas assinaturas ou os seus limites"
    ),
    "what is published is still delivered to them, and held or cancelled: `mutirao endpoints"
    " remove` removes the rest": (
        "o que se publica ainda lhes é entregue, e retido ou cancelado: `mutirao endpoints remove`"
        " remove o resto"
    ),
    "the subscriptions of {} were deleted by hand": "as assinaturas de {} foram apagadas à mão",
    "nothing is sent to them: `mutirao endpoints put` them again, or remove them": (
        "nada lhes é enviado: ponha-os de novo com `mutirao endpoints put`, ou remova-os"
    ),
    # leftovers
    "{} live rows of jobs that are no more": "{} linhas vivas de jobs que não existem mais",
    "{} jobs that are blocked by nothing": "{} jobs que nada bloqueia estão bloqueados",
    "{} rows of jobs that SQL enqueued under a rule and that do not wait for it": (
        "{} linhas de jobs que o SQL enfileirou sob uma regra e que não esperam por ela"
    ),
    "{} rows of jobs that waited for a limit and have ended": (
        "{} linhas de jobs que esperavam por um limite e terminaram"
    ),
    "{} keys of jobs that are no more": "{} chaves de jobs que não existem mais",
    "{} rows of jobs that waited for another one of their key and have ended": (
        "{} linhas de jobs que esperavam por outro da mesma chave e terminaram"
    ),
    "{} supersede rows of jobs that do not exist any more": (
        "{} linhas de supersede de jobs que não existem mais"
    ),
    "a worker mends them within ten minutes": "um worker as corrige em até dez minutos",
    "nothing was left behind": "nada ficou para trás",
    # schedules
    "{} should have ticked a minute ago, and did not": (
        "{}: deveriam ter criado um job há um minuto, e não criaram"
    ),
    "start a worker; where some run, their logs say why": (
        "inicie um worker; se há workers rodando, os logs deles dizem por quê"
    ),
    "{} make jobs of tasks that this application does not have": (
        "{}: criam jobs de tarefas que esta aplicação não tem"
    ),
    "deploy the version that has them, or `mutirao schedules remove`": (
        "implante a versão que as tem, ou execute `mutirao schedules remove`"
    ),
    "they still tick: put them back, or `mutirao schedules remove` (or pause)": (
        "ainda criam jobs: ponha-os de volta, ou execute `mutirao schedules remove` (ou pause)"
    ),
    "{} are paused and make no jobs": "{}: estão em pausa e não criam jobs",
    "`mutirao schedules list` says why; once that is mended: `mutirao schedules resume`": (
        "`mutirao schedules list` diz por quê; quando isso estiver resolvido: `mutirao schedules"
        " resume`"
    ),
    "{} that tick, on time": "{} ativos, em dia",
    # workers
    "{} alive": "{} vivos",
    "none is registered": "nenhum está registrado",
    "start one: `mutirao worker module:app`": "inicie um: `mutirao worker module:app`",
    "worker {} ({}) has not beaten since {} and holds {} jobs": (
        "o worker {} ({}) não dá sinal de vida desde {} e tem {} jobs"
    ),
    "the live workers will take them over within seconds": (
        "os workers vivos os assumem em segundos"
    ),
    "start a worker: it takes the jobs over": "inicie um worker: ele assume os jobs",
    "a heartbeat of worker {} ({}) came {} s late; beyond {} s its jobs run elsewhere as well": (
        "um sinal de vida do worker {} ({}) chegou com {} s de atraso; acima de {} s os jobs dele"
        " rodam também em outro lugar"
    ),
    "look for a handler that keeps the interpreter to itself (a regular expression, a C extension)"
    " and give it process=True; or for a machine that has too much to do": (
        "procure uma função que ocupa o interpretador sozinha (uma expressão regular, uma extensão"
        " em C) e dê a ela process=True; ou uma máquina com trabalho demais"
    ),
    "worker {} ({}) has lost {} of {} slots to threads that ran into their timeout": (
        "o worker {} ({}) perdeu {} de {} vagas para threads que estouraram o seu timeout"
    ),
    "restart it; make those tasks coroutines, or give them process=True, so that they can be"
    " stopped": (
        "reinicie-o; faça dessas tarefas corrotinas, ou dê a elas process=True, para que possam ser"
        " paradas"
    ),
    # every database
    "the index {} is missing": "falta o índice {}",
    "the index {} is missing or invalid": "o índice {} falta ou é inválido",
    "all {} are there": "todos os {} existem",
    "all {} are there and valid": "todos os {} existem e são válidos",
    "read by the index mutirao_live_waiting": "lidas pelo índice mutirao_live_waiting",
    "read by the index mutirao_live_lanes": "lidas pelo índice mutirao_live_lanes",
    # SQLite
    "run the statement that makes it in `mutirao schema --dialect sqlite`": (
        "execute o comando que o cria em `mutirao schema --dialect sqlite`"
    ),
    "the planner does not use mutirao_live_waiting: {}": (
        "o planejador não usa mutirao_live_waiting: {}"
    ),
    "run ANALYZE mutirao_live": "execute ANALYZE mutirao_live",
    "in WAL mode: readers and a writer do not wait for each other": (
        "em modo WAL: leitores e um escritor não esperam uns pelos outros"
    ),
    "the file is in {} mode: readers and writers wait for each other": (
        "o arquivo está em modo {}: leitores e escritores esperam uns pelos outros"
    ),
    "run `mutirao migrate`, which sets WAL mode": (
        "execute `mutirao migrate`, que liga o modo WAL"
    ),
    "{} of {} pages of the file are free": "{} de {} páginas do arquivo estão livres",
    "VACUUM gives them back, while no worker runs": (
        "VACUUM as devolve, enquanto nenhum worker roda"
    ),
    # PostgreSQL
    "DROP INDEX IF EXISTS {}, then run the statement that makes it in `mutirao schema --dialect"
    " postgresql`": (
        "DROP INDEX IF EXISTS {}, depois execute o comando que o cria em `mutirao schema --dialect"
        " postgresql`"
    ),
    "{} live jobs, too few to need an index": "{} jobs vivos, poucos demais para um índice",
    "the planner does not use mutirao_live_lanes: {}": (
        "o planejador não usa mutirao_live_lanes: {}"
    ),
    "ANALYZE {}; see that enable_indexscan is on": (
        "ANALYZE {}; verifique se enable_indexscan está ligado"
    ),
    "{} dead rows beside {} live ones in mutirao_live, last vacuumed {}": (
        "{} linhas mortas ao lado de {} vivas em mutirao_live, último vacuum: {}"
    ),
    "VACUUM {}; see below what keeps dead rows, and that autovacuum is on": (
        "VACUUM {}; veja abaixo o que retém linhas mortas, e se o autovacuum está ligado"
    ),
    "{} has had a transaction open for {} minutes, which keeps dead rows from being removed": (
        "{}: tem uma transação aberta há {} minutos, o que impede remover linhas mortas"
    ),
    "end it if it is not needed: SELECT pg_terminate_backend({})": (
        "encerre-a se não é necessária: SELECT pg_terminate_backend({})"
    ),
    "no transaction is older than {} minutes": "nenhuma transação tem mais de {} minutos",
    "no setting of a role or of the database is in the way": (
        "nenhuma configuração de um papel ou do banco atrapalha"
    ),
    "{}: {} makes single statements of workers travel in transactions, which takes longer": (
        "{}: {} faz comandos isolados dos workers irem em transações, o que demora mais"
    ),
    "{}: {} keeps triggers from running, so that jobs with a key are refused": (
        "{}: {} impede os triggers, de modo que jobs com chave são recusados"
    ),
    "{}: {} lets jobs be found by polling only, as two-phase commits need it": (
        "{}: {} faz os jobs serem encontrados só por consulta, como commits em duas fases precisam"
    ),
    "SET mutirao.notify TO on, where no transaction is prepared": (
        "SET mutirao.notify TO on, onde nenhuma transação é preparada"
    ),
    "new jobs are announced on another channel than this application's workers listen on, which"
    " find them by polling": (
        "os jobs novos são anunciados em um canal que os workers desta aplicação não escutam: eles"
        " os encontram por consulta"
    ),
    "give every application of this set of jobs the same schema=, with which it was made": (
        "dê a toda aplicação deste conjunto de jobs o mesmo schema=, com que ele foi criado"
    ),
    "workers and commands tried {} transactions again, for {} jobs; the server counts {} deadlocks"
    " of anybody since {}": (
        "workers e comandos tentaram {} transações de novo, em {} jobs; o servidor conta {}"
        " deadlocks de todos os clientes desde {}"
    ),
    "the server's log says who met whom; a transaction that makes several calls with keys makes"
    " them in the order of the keys, and locks no rows of mutirao_live itself": (
        "o log do servidor diz quem encontrou quem; uma transação que faz várias chamadas com"
        " chaves as faz na ordem das chaves, e não trava ela mesma linhas de mutirao_live"
    ),
    # MySQL and MariaDB
    "{} has what is needed, and all tables are in InnoDB": (
        "{} tem o que é preciso, e todas as tabelas estão em InnoDB"
    ),
    "{} transactions were tried again, given up for others": (
        "{} transações foram tentadas de novo, por terem cedido a outras"
    ),
    "sessions are not strict unless they ask for it (sql_mode = {}): of what other programs insert,"
    " texts that are too long are cut off. Our own sessions are strict": (
        "as sessões só são estritas se pedirem (sql_mode = {}): do que outros programas inserem,"
        " textos longos demais são cortados. As nossas sessões são estritas"
    ),
    "add STRICT_TRANS_TABLES to the server's sql_mode": (
        "acrescente STRICT_TRANS_TABLES ao sql_mode do servidor"
    ),
    "add it as the table has it in `mutirao schema --dialect mysql`": (
        "acrescente-o como a tabela o tem em `mutirao schema --dialect mysql`"
    ),
    "MySQL shows only users with the privilege PROCESS how many old rows are not purged": (
        "o MySQL só mostra a usuários com o privilégio PROCESS quantas linhas antigas não foram"
        " limpas"
    ),
    "the old rows of {} transactions are not purged": (
        "as linhas antigas de {} transações não foram limpas"
    ),
    "end the transaction that has been open for longest, which keeps them: SELECT"
    " trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx ORDER BY trx_started": (
        "encerre a transação aberta há mais tempo, que as retém: SELECT trx_mysql_thread_id,"
        " trx_started FROM information_schema.innodb_trx ORDER BY trx_started"
    ),
    "the server is {}": "o servidor é {}",
    "use {}, or newer": "use {}, ou mais novo",
    "the server ({}) lacks {}": "o servidor ({}) não tem {}",
    "use a server that has it, or switch it on there": "use um servidor que o tem, ou ligue-o ali",
    "{} is kept by {}, which has no transactions": "{} está em {}, que não tem transações",
    "the server has max_allowed_packet = {}, and refuses larger statements, as some of ours are,"
    " with error 1153: they need {} bytes": (
        "o servidor tem max_allowed_packet = {} e recusa comandos maiores, como alguns dos nossos,"
        " com o erro 1153: eles precisam de {} bytes"
    ),
    "set it to 16M there, which is the usual size": "defina 16M no servidor, que é o tamanho usual",
    "say ALTER TABLE {} ENGINE = InnoDB": "execute ALTER TABLE {} ENGINE = InnoDB",
    "our session has {} = {}, though it was set to something else": (
        "a nossa sessão tem {} = {}, embora tenha sido definido de outra forma"
    ),
    "find out who sets it again: a pooler or proxy, perhaps": (
        "descubra o que o muda de volta: talvez um pooler ou proxy"
    ),
    "something between us and the server shares the sessions of a server among its connections, and"
    " refuses last_insert_id(), which says the number of a new row": (
        "algo entre nós e o servidor divide as sessões de um servidor entre as suas conexões, e"
        " recusa last_insert_id(), que diz o número de uma linha nova"
    ),
    "connect to a port of MySQL Router without connection_sharing, or to the server itself": (
        "conecte-se a uma porta do MySQL Router sem connection_sharing, ou ao próprio servidor"
    ),
    "the server writes its binary log by STATEMENT, and refuses whatever is written in READ"
    " COMMITTED, as we do (error 1665)": (
        "o servidor grava o seu log binário por STATEMENT, e recusa o que é gravado em READ"
        " COMMITTED, como fazemos (erro 1665)"
    ),
    "set binlog_format = ROW there": "defina ali binlog_format = ROW",
    # brokers
    "start it, or correct its URL": "inicie-o, ou corrija a URL dele",
    "correct the rights of its user": "corrija os direitos do usuário dele",
    "{}: schedule {} has stopped": "{}: o agendamento {} parou",
    "{}: schedule {} has stopped: {}": "{}: o agendamento {} parou: {}",
    "`mutirao transports start-schedule {}` has it go on": (
        "`mutirao transports start-schedule {}` o faz continuar"
    ),
    "{}: schedule {} has had no worker yet, or the one that holds it does not answer": (
        "{}: o agendamento {} ainda não teve worker, ou o que o tem não responde"
    ),
    "start a worker that serves its queue": "inicie um worker que atende a fila dele",
    "{}: schedule {} is not in the code any more, and its queue is left": (
        "{}: o agendamento {} não está mais no código, e a fila dele restou"
    ),
    "`mutirao transports drop-schedule {}`, or put it back": (
        "`mutirao transports drop-schedule {}`, ou ponha-o de volta"
    ),
    "{}: {} events were not published within a day, as it was away or took them too slowly; the"
    " last at {}Z": (
        "{}: {} eventos não foram publicados em um dia, porque ele esteve fora ou os recebeu"
        " devagar demais; o último em {}Z"
    ),
    "nothing, if it was away; otherwise give it room, or fewer queues events=True": (
        "nada, se ele esteve fora; senão dê espaço a ele, ou events=True a menos filas"
    ),
    "{}: as `mutirao transports declare` makes it": (
        "{}: como `mutirao transports declare` o cria"
    ),
    "{}: {} things that its queues need are missing": (
        "{}: faltam {} coisas de que as suas filas precisam"
    ),
    "no task of this application is in queue {}, which {} carries": (
        "nenhuma tarefa desta aplicação está na fila {}, que {} leva"
    ),
    "correct transports={…} or the tasks' queue=, unless calls name the queue themselves": (
        "corrija transports={…} ou o queue= das tarefas, a menos que as próprias chamadas nomeiem a"
        " fila"
    ),
    # hub
    "{}; workers poll": "{}; os workers consultam",
    "start it (`mutirao hub module:app`), or correct its URL or its token": (
        "inicie-o (`mutirao hub module:app`), ou corrija a URL ou o token dele"
    ),
    "the hub at {} answers, and looks at this database": (
        "o hub em {} responde, e observa este banco"
    ),
    "the hub at {} answers, and does not look at this database, which it knows as {}: jobs that"
    " nobody announces wait until workers poll": (
        "o hub em {} responde, e não observa este banco, que ele conhece como {}: jobs que ninguém"
        " anuncia esperam até que os workers consultem"
    ),
    "give it the database: `mutirao hub module:app`, or --database URL; docs/hub.md has names": (
        "dê o banco a ele: `mutirao hub module:app`, ou --database URL; docs/hub.md tem os nomes"
    ),
}
