# Draws sizes.svg: gnuplot sizes.gnuplot. The figures and where they are from: docs/performance.md,
# "Messages from 64 bytes to 2 KiB".
set terminal svg size 900,420 dynamic background 'white' font 'sans-serif,14'
set output 'sizes.svg'
set title 'Messages from 64 bytes to 2 KiB'
set xlabel 'bytes'
set logscale x 2
set xtics (64, 128, 256, 512, 1024, 2048)
set ylabel 'microseconds, one way'
set yrange [0:1.2]
set y2label 'million messages per second'
set y2range [0:6]
set ytics nomirror
set y2tics
set grid xtics ytics
set key outside bottom center horizontal
$sizes << EOD
64 0.62 3.7
128 0.59 4.4
256 0.60 3.9
384 0.76 3.9
512 0.73 3.4
640 0.77 3.1
768 0.87 3.1
1000 0.76 3.2
1024 0.77 2.8
1536 0.83 2.7
2048 0.79 2.6
EOD
plot $sizes using 1:2 with linespoints title 'latency' lc rgb '#d55e00' lw 2 pt 7, \
  $sizes using 1:3 axes x1y2 with linespoints title 'rate (right)' lc rgb '#0072b2' lw 2 pt 6
